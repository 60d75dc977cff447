"""`python -m holdcourse` is the command `holdcourse`, also where the folder of scripts is not on the path."""

from holdcourse.cli import main

main()
