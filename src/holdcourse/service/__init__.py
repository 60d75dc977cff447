"""The HTTP service: controllers that run for months, beside the system they steer, and a page to watch them.

::

    commands   holdcourse serve, holdcourse token
      app      headers and errors; addresses in steering and watching
        fleet      all controllers of one process: opened, made, watched over, one turn at a time each
          hosted     one controller: what an operator may do to it
            ledger     what follows from the events of its record
            epochs     records that continue each other
          store      the data folder

Needs the extra: ``pip install "holdcourse[serve]"``.
"""
