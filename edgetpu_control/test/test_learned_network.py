"""Learned networks: their file, their training, and what 8 bits make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_control.learned import train_policy
from edgetpu_control.learned.network import Interval, Layer, Network, load_network
from edgetpu_control.learned.quantised_network import INPUT, OUTPUT, QuantisedNetwork, quantise
from edgetpu_control.learned.train_policy import main
from edgetpu_control.learned.training import TrainingPlan, train
from edgetpu_driver.errors import InputError

LIMITS = np.array([2.0, 4.0, 3.0])


def states(count: int) -> NDArray[np.float64]:
    return np.random.default_rng(count).uniform(-1, 1, (count, 3)) * LIMITS


def teacher(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """A feedback with a nonlinear part, as a policy would learn it."""
    return np.stack([-2 * x[:, 0] - x[:, 1] + 3 * np.sin(x[:, 2]), x[:, 1] * np.cos(x[:, 2])], axis=1)


def rms(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt(np.mean(np.square(values), axis=0))


@pytest.fixture(scope="module")
def learned() -> Network:
    x = states(3000)
    return train(x, teacher(x), TrainingPlan((32, 32), epochs=40))


@pytest.fixture(scope="module")
def wide(learned: Network) -> QuantisedNetwork:
    """The network in a program of 256 units a layer."""
    return quantise(learned, width=256)


@pytest.fixture(scope="module")
def narrow(learned: Network) -> QuantisedNetwork:
    """The network without copies."""
    return quantise(learned)


def tiny(**changes: object) -> Network:
    """Two inputs, a hidden layer of two, one output: 0.5 |a| - b."""
    parts: dict[str, object] = {
        "layers": (
            Layer(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros(2)),
            Layer(np.array([[0.5, 0.5]]), np.array([0.25])),
        ),
        "inputs": Interval(np.array([-2.0, -2.0]), np.array([2.0, 2.0])),
        "outputs": Interval(np.array([-10.0]), np.array([10.0])),
        "samples": np.array([[-2.0, 1.0], [2.0, -1.0], [0.0, 0.0]]),
    }
    return Network(**parts | changes)  # type: ignore[arg-type]


class TestNetwork:
    def test_computes_in_ranges(self) -> None:
        # |1| of the normalised 1 / 2 is weighed by 0.5, plus 0.25, of a range of 10.
        assert tiny()([[1.0, 0.0], [-2.0, 0.0]]).tolist() == [[5.0], [7.5]]

    def test_ends_at_its_ranges(self) -> None:
        assert tiny()([[1e9, 0.0]]).tolist() == [[7.5]]

    @pytest.mark.parametrize("kind", [str, Path])
    def test_comes_back_from_its_file(
        self, tmp_path: Path, learned: Network, kind: Callable[[Path], str | Path]
    ) -> None:
        path = kind(tmp_path / "policy.npz")
        learned.save(path)
        found = load_network(path)
        assert found.sizes == (3, 32, 32, 2)
        assert np.allclose(found(states(50)), learned(states(50)), atol=1e-4)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"layers": ()}, "at least one layer"),
            (
                {"layers": (Layer(np.ones((1, 3)), np.ones(1)),)},
                r"layer 1: expected weights \[1 to 1024, 2\]",
            ),
            ({"layers": (Layer(np.full((1, 2), np.nan), np.ones(1)),)}, "finite"),
            ({"samples": np.zeros((0, 2))}, r"expected samples \[count, 2\]"),
            (
                {"outputs": Interval(np.ones(1), np.ones(1))},
                "outputs: expected ranges with low below high; got 1 to 1 as number 1",
            ),
            (
                {"outputs": Interval(np.zeros(1), np.ones(2))},
                r"outputs: expected 1 ranges; got lows \[1\] and highs \[2\]",
            ),
            ({"inputs": Interval(np.zeros(3), np.ones(3))}, "layer 1"),
        ],
    )
    def test_refuses_what_does_not_fit(self, changes: dict[str, object], message: str) -> None:
        with pytest.raises(InputError, match=message):
            tiny(**changes)

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"nothing"])
    def test_refuses_other_files(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "other.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"other\.npz: expected a learned network"):
            load_network(tmp_path / "other.npz")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"bias_1": np.array("one")}, r"x\.npz: expected numbers as bias_1; got text"),
            ({"sizes": np.zeros(10**6)}, r"x\.npz: expected 1 to 16 layers; got 999999"),
            ({"sizes": np.zeros(1)}, r"x\.npz: expected 1 to 16 layers; got 0"),
        ],
    )
    def test_refuses_other_arrays(self, tmp_path: Path, change: dict[str, np.ndarray], message: str) -> None:
        path = tmp_path / "x.npz"
        tiny().save(path)
        with np.load(path) as file:
            arrays = dict(file)
        np.savez(path, allow_pickle=False, **(arrays | change))
        with pytest.raises(InputError, match=message):
            load_network(path)

    def test_refuses_a_file_without_its_arrays(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "other.npz", weights_1=np.ones((1, 1)))
        with pytest.raises(InputError, match=r"with sizes; got another \.npz file without sizes$"):
            load_network(tmp_path / "other.npz")


class TestTraining:
    def test_learns_from_a_teacher(self, learned: Network) -> None:
        x = states(500)
        wanted = teacher(x)
        assert np.all(rms(learned(x) - wanted) < 0.1 * rms(wanted))

    def test_keeps_the_samples_with_the_least_and_greatest_values(self) -> None:
        x = states(3000)
        kept = train(x, teacher(x), TrainingPlan((4,), epochs=1)).samples
        assert len(kept) == 1024
        for those, of_all in ((kept, x), (teacher(kept), teacher(x))):
            assert np.array_equal(those.min(axis=0), of_all.min(axis=0))
            assert np.array_equal(those.max(axis=0), of_all.max(axis=0))

    def test_gives_the_same_network_again(self) -> None:
        x = states(100)
        first, second = (train(x, teacher(x), TrainingPlan((4,), epochs=2)) for _ in range(2))
        assert np.array_equal(first.layers[0].weights, second.layers[0].weights)

    def test_takes_a_quantity_that_never_changes(self) -> None:
        x = states(100)
        x[:, 1] = 7.0
        assert np.all(np.isfinite(train(x, teacher(x), TrainingPlan((4,), epochs=2))(x)))

    @pytest.mark.parametrize(
        ("x", "y"),
        [(np.ones((3, 2)), np.ones((4, 1))), (np.ones(3), np.ones(3)), (np.ones((0, 2)), np.ones((0, 1)))],
    )
    def test_refuses_samples_that_do_not_fit(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        with pytest.raises(InputError, match="expected inputs"):
            train(x, y)

    def test_refuses_samples_that_are_not_finite(self) -> None:
        with pytest.raises(InputError, match="NaN or infinity"):
            train(np.full((2, 1), np.nan), np.ones((2, 1)))

    def test_refuses_samples_that_are_not_real(self) -> None:
        with pytest.raises(InputError, match="expected outputs of real numbers; got complex64"):
            train(np.ones((2, 1)), np.ones((2, 1), np.complex64))


class TestEightBits:
    def test_cost_at_most_2_percent_of_the_commands(self, learned: Network, wide: QuantisedNetwork) -> None:
        x = states(500)
        wanted = learned(x)
        assert np.all(rms(wide.reference(x) - wanted) < 0.02 * rms(wanted))

    @pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
    def test_do_not_depend_on_the_size_of_hidden_values(
        self, narrow: QuantisedNetwork, factor: float
    ) -> None:
        learned = narrow.network
        first, *others, last = learned.layers
        first = Layer(factor * first.weights, factor * first.bias)
        others = [Layer(each.weights, factor * each.bias) for each in others]
        scaled = replace(learned, layers=(first, *others, Layer(last.weights / factor, last.bias)))
        assert np.array_equal(quantise(scaled).reference(states(50)), quantise(learned).reference(states(50)))

    @pytest.mark.parametrize("width", [0, 256])
    @pytest.mark.parametrize("weight", [0.0, 1e-9, 1e-3])
    def test_keep_a_bias_that_is_large_for_its_weights(self, width: int, weight: float) -> None:
        hidden = Layer(np.array([[weight, 0.0], [0.0, 1.0]]), np.array([0.5, -1e12]))
        network = tiny(layers=(hidden, Layer(np.array([[1.0, 1.0]]), np.array([0.25]))))
        assert quantise(network, width=width).reference(np.zeros((1, 2))) == pytest.approx(7.5, rel=0.02)

    def test_cost_less_with_copies(self, narrow: QuantisedNetwork, wide: QuantisedNetwork) -> None:
        assert wide.layer_errors[-1].total < narrow.layer_errors[-1].total / 2

    def test_cost_is_stated_for_every_layer(self, narrow: QuantisedNetwork) -> None:
        errors = narrow.layer_errors
        assert [each.units for each in errors] == [32, 32, 2]
        assert all(0 < each.own < 0.05 for each in errors)
        assert errors[-1].total > errors[-1].own

    def test_leaves_room_above_the_largest_sample(self, wide: QuantisedNetwork) -> None:
        largest = wide.network.sample_activations()[1].max()
        assert wide.layers[0].scale * 255 == pytest.approx(1.25 * largest)

    def test_copies_fill_the_program(self, wide: QuantisedNetwork) -> None:
        assert wide.copies == (85, 8, 8, 128)
        assert wide.widths == (256,) * 4
        assert wide.encode(states(1)).shape == (1, 256)

    @pytest.mark.parametrize(("batch", "copied"), [(1, False), (1, True), (12, False), (64, False)])
    def test_the_graph_computes_the_reference(
        self, narrow: QuantisedNetwork, wide: QuantisedNetwork, tmp_path: Path, batch: int, copied: bool
    ) -> None:
        pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
        from edgetpu_driver.engines.cpu_engine import CpuEngine

        network = replace(wide if copied else narrow, batch=batch)
        (tmp_path / "network.tflite").write_bytes(network.graph())
        engine = CpuEngine(tmp_path / "network.tflite")
        x = states(batch)
        found = network.decode(engine.run({INPUT: network.encode(x)})[OUTPUT])
        # LiteRT's kernels differ by a step of a layer at most.
        step = network.layers[-1].scale * network.network.outputs.half
        assert np.all(np.abs(found - network.reference(x)) <= step)

    @pytest.mark.parametrize(("width", "batch"), [(31, 1), (1025, 1), (0, 0)])
    def test_refuses_programs_it_does_not_fit(self, learned: Network, width: int, batch: int) -> None:
        with pytest.raises(InputError, match=r"expected a (width|batch)"):
            quantise(learned, width=width, batch=batch)


def test_three_layers_of_256_take_less_than_a_millisecond_on_usb_3(wide: QuantisedNetwork) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    from edgetpu_driver import CompiledModel, EdgeTpu, VirtualEdgeTpu
    from edgetpu_driver.virtual.graph_packer import pack

    model = CompiledModel.parse(pack(wide.graph(), name="policy"), "policy")
    stick = VirtualEdgeTpu().register_model(model, wide.graph())
    with EdgeTpu.open(usb_backend=stick) as tpu:
        for _ in range(2):  # the first uploads the parameters
            tpu.run(model, {INPUT: wide.encode(states(1))})
        assert stick.last_inference_time < 1e-3


class TestCommandLine:
    def test_trains_and_tells_the_errors(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        x = states(200)
        np.savez(tmp_path / "samples.npz", observations=x, commands=teacher(x))
        files = [str(tmp_path / "samples.npz"), str(tmp_path / "policy.npz")]
        assert main([*files, "--hidden", "8", "--epochs", "2"]) == 0
        assert load_network(tmp_path / "policy.npz").sizes == (3, 8, 2)
        assert "error due to 8 bits in layer 2" in capsys.readouterr().out

    def test_refuses_other_files(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        np.savez(tmp_path / "samples.npz", observations=np.ones((2, 2)))
        assert main([str(tmp_path / "samples.npz"), str(tmp_path / "policy.npz")]) == 2
        assert "expected an .npz file with observations and commands" in capsys.readouterr().err

    @pytest.mark.parametrize("kind", ["one array", "text", "damaged"])
    def test_refuses_files_that_are_no_numbers_by_name(
        self, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file, x = tmp_path / "samples.npz", states(200)
        with file.open("wb") as opened:
            if kind == "one array":
                np.save(opened, x)
            else:
                commands = np.full((200, 1), "left") if kind == "text" else teacher(x)
                np.savez_compressed(opened, observations=x, commands=commands)
        if kind == "damaged":
            data = bytearray(file.read_bytes())
            data[60:80] = bytes(20)  # within the compressed observations
            file.write_bytes(data)
        assert main([str(file), str(tmp_path / "policy.npz")]) == 2
        assert f"{file}: expected an .npz file with observations and commands" in capsys.readouterr().err

    def test_refuses_complex_numbers(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file, x = tmp_path / "samples.npz", states(200)
        np.savez(file, observations=x, commands=teacher(x) + 1j)
        assert main([str(file), str(tmp_path / "policy.npz")]) == 2
        assert capsys.readouterr().err == (
            f"train_policy: {file}: expected an .npz file with observations and commands; expected commands "
            "of real numbers; got complex128\n"
        )
        assert not (tmp_path / "policy.npz").exists()

    def test_the_deviation_of_commands_in_small_integers_is_true(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The square of 16 is 0 in eight bits."""
        x = np.linspace(-1, 1, 200)[:, np.newaxis]
        np.savez(tmp_path / "samples.npz", observations=x, commands=np.full((200, 1), 16, np.int8))
        main([str(tmp_path / "samples.npz"), str(tmp_path / "policy.npz"), "--hidden", "--epochs", "1"])
        assert "always 0" not in capsys.readouterr().out

    def test_does_not_write_over_its_samples(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        samples = tmp_path / "samples.npz"
        np.savez(samples, observations=states(200), commands=teacher(states(200)))
        before = samples.read_bytes()
        assert main([str(samples), f"{tmp_path}/./samples.npz"]) == 2
        assert "samples.npz: expected a file other than that of the samples" in capsys.readouterr().err
        assert samples.read_bytes() == before

    def test_says_in_a_line_that_it_was_interrupted(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(train_policy, "train", Mock(side_effect=KeyboardInterrupt))
        assert main(["visual_servo", "policy.npz"]) == 130
        assert capsys.readouterr().err == "train_policy: interrupted\n"

    @pytest.mark.parametrize("epochs", ["0", "-1"])
    def test_refuses_to_train_in_no_epochs(
        self, epochs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        x = states(200)
        np.savez(tmp_path / "samples.npz", observations=x, commands=teacher(x))
        files = [str(tmp_path / "samples.npz"), str(tmp_path / "policy.npz")]
        assert main([*files, "--epochs", epochs]) == 2
        assert capsys.readouterr().err == f"train_policy: expected 1 epoch or more; got {epochs}\n"


@pytest.mark.parametrize("value", [9.81, 1000.0, 1.7e9, -1e12])
def test_a_network_of_quantities_that_never_change_survives_its_file(tmp_path: Path, value: float) -> None:
    inputs = np.column_stack([np.linspace(-1, 1, 64), np.full(64, value)])
    network = train(inputs, np.full((64, 1), value), TrainingPlan((4,), epochs=1))
    network.save(tmp_path / "network.npz")
    loaded = load_network(tmp_path / "network.npz")
    assert loaded(inputs) == pytest.approx(np.full((64, 1), value), rel=1e-6)


def test_a_file_keeps_ranges_that_are_narrow_for_their_values(tmp_path: Path) -> None:
    inputs = np.linspace(1.7e9, 1.7e9 + 60, 64)[:, np.newaxis]
    network = train(inputs, inputs - 1.7e9, TrainingPlan((4,), epochs=20))
    network.save(tmp_path / "network.npz")
    assert load_network(tmp_path / "network.npz")(inputs) == pytest.approx(network(inputs), abs=1e-3)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (TrainingPlan(hidden=(0,)), "expected hidden layers of 1 to 1024 units; got 0"),
        (TrainingPlan(hidden=(8, -1)), "expected hidden layers of 1 to 1024 units; got 8, -1"),
        (TrainingPlan(batch=0), "expected batches of 1 sample or more; got 0"),
        (TrainingPlan(rate=0.0), "expected a rate above 0; got 0"),
        (TrainingPlan(rate=float("nan")), "expected a rate above 0; got nan"),
        (TrainingPlan(seed=-1), "expected a seed of 0 or more; got -1"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(plan: TrainingPlan, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(np.zeros((4, 1)), np.zeros((4, 1)), plan)
