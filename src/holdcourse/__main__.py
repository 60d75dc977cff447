"""`python -m holdcourse` is the command `holdcourse`, for when the folder of scripts is not on the path."""

from holdcourse.cli import main

if __name__ == "__main__":
    main()
