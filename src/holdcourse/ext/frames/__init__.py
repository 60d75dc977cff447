"""Runs, sweeps and records as pandas and xarray tables (extra ``[frames]``).

==================  ==================================================  ===========================================
what you have       as a pandas DataFrame                               as an xarray Dataset
==================  ==================================================  ===========================================
runs                `runs_frame`: a row for each round                  `runs_dataset`: run x round (x setting)
a sweep's results   `sweep_frame`: a row for each run
a record            `record_frame`: a row for each decision             `record_dataset`: round
==================  ==================================================  ===========================================

Contexts of one number are the column ``context``, others ``context_0``, ``context_1``, ..., unless `context_names` says
better. `units`, by column, go into ``attrs["units"]``: of the frame, and of each variable of a dataset.
"""

from holdcourse.ext.frames.dataset import record_dataset, runs_dataset
from holdcourse.ext.frames.frame import record_frame, runs_frame, sweep_frame

__all__ = ["record_dataset", "record_frame", "runs_dataset", "runs_frame", "sweep_frame"]
