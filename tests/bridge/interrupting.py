"""What the quick and the slow tests of interruptions have in common."""

from __future__ import annotations

import time

import pytest
from bridge.plc import SAFE
from bridge.rig import MOSQUITTO, SAFE_WITHIN_S, Rig, wait_for


def needs(kind):
    """Skip where the servers cannot be started here."""
    if kind == "opcua":
        pytest.importorskip("asyncua", reason='needs asyncua: pip install "holdcourse[opcua]"')
    else:
        pytest.importorskip("paho.mqtt.client", reason='needs paho-mqtt: pip install "holdcourse[mqtt]"')
        if MOSQUITTO is None:
            pytest.skip("there is no mosquitto broker: install the system's package of it")


def run(kind, folder, interruptions, *, in_process=False, say=lambda *words: None):
    """Interrupt one after the other; returns how long it took each time until the plant was safe."""
    took = []
    with Rig(kind, folder, in_process=in_process) as rig:
        rig.start_bridge()
        try:
            wait_for(rig.is_followed, "the bridge to take control")
            wait_for(lambda: rig.measured() >= 2, "a round that is measured")
            for number, what in enumerate(interruptions):
                seconds = rig.interrupted(what)
                assert seconds < SAFE_WITHIN_S, f"{what} was safe after {seconds:.1f} s"
                began = time.monotonic()
                wait_for(rig.is_followed, f"control again after {what}", 30)
                took.append(seconds)
                say(number, what, f"{seconds:.2f}", f"{time.monotonic() - began:.2f}")
            known = rig.measured()
            wait_for(lambda: rig.measured() > known, "a round that is measured, after all that")
            rig.stop_bridge()
            wait_for(lambda: rig.effective() == SAFE, "control to be handed back at the end", 5)
            rig.check()
        except BaseException:
            print(rig.said()[-20_000:])
            raise
    return took
