"""`python -m holdcourse`: the command line where its script is not on the path, as often on Windows."""

from holdcourse.cli import main

if __name__ == "__main__":
    main()
