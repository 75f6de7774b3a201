"""Small questions about words."""


def is_palindrome(text):
    """True when the text reads the same backwards; upper and lower case do not matter."""
    text = text.lower()
    return text == text[::-1]


def initials(name):
    """The first letter of each part of a name: "Ada Lovelace" gives "AL"."""
    return "".join(part[0] for part in name.split())


def count_vowels(text):
    """How many of the letters a, e, i, o, u the text has."""
    return sum(1 for letter in text.lower() if letter in "aeiou")
