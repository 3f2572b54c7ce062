"""How far an estimate moves when the biases are wrong by up to a factor."""

from vardi._estimate.sensitivity.question import GAMMAS, Question
from vardi._estimate.sensitivity.result import Kind, Sensitivity
from vardi._estimate.sensitivity.targets import Mean, Target

__all__ = ["GAMMAS", "Kind", "Mean", "Question", "Sensitivity", "Target"]
