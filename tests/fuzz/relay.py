"""Run the relay's target under libFuzzer: ``python -m tests.fuzz.relay [libFuzzer flags]``.

The seeds are written to ``.cache/fuzz/corpus`` below the current directory, where
libFuzzer adds the inputs that reached something new; a finding is written next to
it. Given as the argument, a finding is played once more.
"""

from __future__ import annotations

import sys
from pathlib import Path

PLACE = Path(".cache/fuzz")


def prepare() -> list[str]:
    """Write seeds and dictionary, and say so in libFuzzer's way."""
    from tests.fuzz.corpus import DICTIONARY, seeds

    corpus, dictionary = PLACE / "corpus", PLACE / "dictionary"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, script in seeds():
        (corpus / name.replace(", ", "-").replace(" ", "-")).write_bytes(script)
    entries = ("".join(f"\\x{byte:02x}" for byte in entry) for entry in DICTIONARY)
    dictionary.write_text("".join(f'"{entry}"\n' for entry in entries))
    return [str(corpus), f"-dict={dictionary}", f"-artifact_prefix={PLACE}/", "-max_len=4096"]


def main() -> None:
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: pip install '.[fuzz]' (Python 3.13 or older)")
    # Only what is imported first here is followed by the fuzzer.
    with atheris.instrument_imports(include=["koord_proxy", "hpack"]):
        from tests.fuzz.relay_target import run, small_limits

    def target(data: bytes) -> None:
        run(data)

    arguments = sys.argv[1:]
    if not any(Path(argument).is_file() for argument in arguments):
        arguments += prepare()
    with small_limits():
        atheris.Setup([sys.argv[0], *arguments], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
