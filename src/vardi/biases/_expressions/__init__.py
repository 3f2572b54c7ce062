"""The language of biases: text such as ``price <= 22 and region in ('N', 'W')``, as values that can be compared.

`nodes` has the values, with families that have parameters, and their text; `compile` turns them into narwhals
expressions or arrays. Text is read in `vardi.biases._parse`.
"""
