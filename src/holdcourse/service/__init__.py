"""The HTTP service: controllers that run for months, beside the system they steer, and a page to watch them.

::

    commands   holdcourse serve, holdcourse token
      app      headers and errors; addresses in steering and watching
        fleet      all controllers of one process: opened, made, watched over, one turn at a time each
          rounds     what the machine's program may do to a controller: ask and tell
          operating  what an operator may do to it
          looking    what everybody may look at
            hosted     one controller, opened from its records
              ledger     what follows from its events; watchdog: who is late, by clocks of its own
              epochs     records that continue each other; sizes: what fits
              shelf      the records of all epochs, for reading; links: whether they continue each other
          store      the data folder
        tokens     who may do what; refusal_log: who was turned away

Needs the extra: ``pip install "holdcourse[serve]"``.
"""
