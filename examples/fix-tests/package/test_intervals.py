import unittest

from intervals import merge, total


class Merge(unittest.TestCase):
    def test_sorts_its_input(self):
        self.assertEqual(merge([(8, 9), (1, 2)]), [(1, 2), (8, 9)])

    def test_joins_what_overlaps(self):
        self.assertEqual(merge([(1, 4), (3, 6)]), [(1, 6)])

    def test_keeps_the_longer_end(self):
        self.assertEqual(merge([(1, 9), (2, 3)]), [(1, 9)])

    def test_joins_neighbours(self):
        self.assertEqual(merge([(1, 2), (3, 4)]), [(1, 4)])


class Total(unittest.TestCase):
    def test_counts_both_ends(self):
        self.assertEqual(total([(1, 3)]), 3)

    def test_counts_each_number_once(self):
        self.assertEqual(total([(1, 3), (2, 5)]), 5)


if __name__ == "__main__":
    unittest.main()
