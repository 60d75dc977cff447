"""Can this history be learned from? A model is tried on readings that it has not seen; see `check_model`."""

from holdcourse.learning.checking.check import check_model
from holdcourse.learning.checking.result import Axis, Corner, Gap, ModelCheck

__all__ = ["Axis", "Corner", "Gap", "ModelCheck", "check_model"]
