import unittest

from words import count_vowels, initials, is_palindrome


class Words(unittest.TestCase):
    def test_count_vowels(self):
        self.assertEqual(count_vowels("Durable"), 3)

    def test_count_vowels_of_nothing(self):
        self.assertEqual(count_vowels(""), 0)

    def test_initials(self):
        self.assertEqual(initials("Ada Lovelace"), "AL")

    def test_is_palindrome(self):
        self.assertTrue(is_palindrome("Level"))

    def test_is_no_palindrome(self):
        self.assertFalse(is_palindrome("ravel"))


if __name__ == "__main__":
    unittest.main()
