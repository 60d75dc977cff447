"""The HTTP service: controllers that run for months, beside the system they steer, and a page to watch them.

::

    commands   holdcourse serve, holdcourse token
      app      headers and errors; addresses in steering and watching
        fleet      all controllers of one process: opened, made, watched over, one turn at a time each
          rounds     what the machine's program may do to a controller: ask and tell
          operating  what an operator may do to it
          looking    what everybody may look at
            hosted     one controller, opened from its records
              ledger     what follows from its events; watchdog: who is late
              epochs     records that continue each other
          store      the data folder

Needs the extra: ``pip install "holdcourse[serve]"``.
"""
