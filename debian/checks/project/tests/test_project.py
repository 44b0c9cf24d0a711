import project


def test_main() -> None:
    assert project.main.name == "main"


def test_disabled() -> None:
    raise AssertionError("this one is named in disabledTests")
