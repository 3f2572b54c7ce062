"""How far an estimate moves when the biases are wrong by up to a factor."""
