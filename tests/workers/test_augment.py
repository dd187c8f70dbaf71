import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.errors import UsageError
from detol.workers.augment import Augmenter, crop, flip


def images(count=6, channels=3, height=16, width=24):
    return torch.arange(count * channels * height * width).reshape(count, channels, height, width) % 251 + 1


def test_flip_mirrors_the_images_whose_draw_says_so():
    batch = images()
    draws = torch.tensor([[0.1, 0, 0], [0.9, 0, 0], [0.49, 0, 0], [0.5, 0, 0], [0.0, 0, 0], [0.7, 0, 0]])
    found = flip(batch, draws)
    for number, mirrored in enumerate([True, False, True, False, True, False]):
        assert torch.equal(found[number], batch[number].flip(-1) if mirrored else batch[number])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_crop_shifts_by_at_most_an_eighth_with_zeros_outside(seed):
    batch = images(4)
    draws = torch.rand(4, 3, generator=torch.Generator().manual_seed(seed))
    found = crop(batch, draws)
    assert found.shape == batch.shape
    assert found.dtype == batch.dtype
    for image, result, (_, vertical, horizontal) in zip(batch, found, draws.tolist(), strict=True):
        down, right = int(vertical * 5) - 2, int(horizontal * 7) - 3  # 16 // 8 = 2 and 24 // 8 = 3 each way
        expected = torch.zeros_like(image)
        for row in range(16):
            for column in range(24):
                if 0 <= row + down < 16 and 0 <= column + right < 24:
                    expected[:, row, column] = image[:, row + down, column + right]
        assert torch.equal(result, expected)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), length=st.integers(2, 40))
def test_signals_are_shifted_along_their_axis(seed, length):
    batch = torch.arange(1, 4 * 2 * length + 1).reshape(4, 2, length)
    draws = torch.rand(4, 3, generator=torch.Generator().manual_seed(seed))
    found = crop(batch, draws)
    most = max(1, length // 8)
    for signal, result, (_, _, along) in zip(batch, found, draws.tolist(), strict=True):
        shift = int(along * (2 * most + 1)) - most
        expected = [signal[:, min(max(at + shift, 0), length - 1)].tolist() for at in range(length)]  # ends repeat
        assert result.T.tolist() == expected


def test_draws_come_from_the_generator_alone():
    augment = Augmenter("flip,crop", "image")
    first = augment.draw(5, torch.Generator().manual_seed(1))
    torch.manual_seed(99)
    assert torch.equal(first, augment.draw(5, torch.Generator().manual_seed(1)))


def test_nothing_to_do():
    augment = Augmenter("", "features")
    assert augment.draw(5, torch.Generator()) is None
    batch = images()
    assert augment(batch, None) is batch


@pytest.mark.parametrize(
    ("names", "kind", "rule"),
    [
        ("flip", "features", "flip is for images, the data are of kind features"),
        ("crop", "features", "crop is for images and signals, the data are of kind features"),
        ("crop,flip", "signal", "flip is for images, the data are of kind signal"),
    ],
)
def test_data_that_an_augmentation_is_not_for_are_refused(names, kind, rule):
    with pytest.raises(UsageError, match=rule):
        Augmenter(names, kind)
