"""The HTTP service: controllers that run for months, beside the system they steer, and a page to watch them.

::

    http/       the side that knows HTTP: addresses, tokens, bodies, answers, errors, the web server
    core/       the side that does not: controllers and their records, clients and their turns, what is refused and why
    page/       the page that people look at, as it is sent

`http` calls `core`; `core` knows nothing of `http`, and refuses by raising types that `http.errors` turns into
statuses. The command that starts it is `holdcourse serve`.

Needs the extra: ``pip install "holdcourse[serve]"``.
"""
