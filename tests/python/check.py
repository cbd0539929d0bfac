"""check.py: what the package promises, on a small model. `check.py MODEL [--numpy] [--wheel]`, in an empty directory."""

import copy
import gc
import inspect
import math
import os
import pathlib
import re
import signal
import sys
import threading
import time
import unittest

import mdl

MODEL = sys.argv[1]
NUMPY, WHEEL = "--numpy" in sys.argv, "--wheel" in sys.argv
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def options(name, **more):
    return {"device": "cpu", "out": name, "threads": 1, **more}


def model():
    with open(MODEL, encoding="utf-8") as file:
        return file.read()


class Compile(unittest.TestCase):
    def test_text_and_file_are_the_same(self):
        text = model()
        one = mdl.compile(MODEL).train(**options("file", steps=2))
        other = mdl.compile(MODEL, text=text).train(**options("text", steps=2))
        self.assertEqual(one.loss, other.loss)

    def test_errors_are_data(self):
        text = "import std.nn;\nmodel m {\n  axis batch = 2, a = 3;\n  input x: real[batch, a];\n  loss = mean(y);\n}\n"
        with self.assertRaises(mdl.CompileError) as caught:
            mdl.compile("some/where.mdl", text=text)
        error = caught.exception
        self.assertEqual((error.file, error.line, error.column), ("some/where.mdl", 5, 15))
        self.assertRegex(error.code, "^E[0-9]{3}$")
        self.assertEqual(error.status, 1)
        first = error.diagnostics[0]
        self.assertEqual((first.end_line, first.end_column, first.severity), (5, 16, "error"))
        self.assertIn("where.mdl:5:15: error[" + error.code, str(error))

    def test_other_errors(self):
        with self.assertRaises(mdl.CompileError) as caught:
            mdl.compile("nowhere.mdl")
        self.assertEqual(caught.exception.code, "E003")
        with self.assertRaises(mdl.CompileError):
            mdl.compile(MODEL, layout="none_such")
        with self.assertRaises(mdl.CompileError):
            mdl.compile(MODEL, set={"no.such": 1})
        with self.assertRaises(mdl.InputError):
            mdl.open(MODEL)
        with self.assertRaises(TypeError):
            mdl.compile()
        with self.assertRaises(TypeError):
            mdl.compile(MODEL, set="batch=8")
        with self.assertRaisesRegex(mdl.InputError, "abacus"):
            mdl.compile(MODEL).train(device="abacus", steps=1)
        with self.assertRaisesRegex(mdl.UsageError, "steps` is 0: a run of no steps leaves nothing; not given"):
            mdl.compile(MODEL).train(**options("none", steps=0))

    def test_plan_in_a_file(self):
        with mdl.compile(MODEL, set={"batch": 2}) as plan:
            plan.write("small.mdlx")
            first = plan.train(**options("compiled", steps=2))
        with self.assertRaises(ValueError):
            plan.write("other.mdlx")
        self.assertEqual(mdl.open("small.mdlx").train(**options("opened", steps=2)).loss, first.loss)


class Train(unittest.TestCase):
    def test_steps(self):
        plan = mdl.compile(MODEL)
        with plan.trainer(**options("steps", steps=4, eval_every=2)) as trainer:
            steps = list(trainer)
            self.assertIsNone(trainer.step())
        self.assertEqual([one.step for one in steps], [1, 2, 3, 4])
        self.assertTrue(all(one.steps == 4 and 0 < one.loss < 6 and one.grad_norm > 0 for one in steps))
        self.assertEqual([math.isnan(one.val_loss) for one in steps], [True, False, True, False])
        self.assertEqual(trainer.result, mdl.Result(os.path.abspath("steps"), 4, steps[3].loss, steps[3].val_loss))
        self.assertTrue(os.path.exists("steps/checkpoints/step-00000004/manifest.json"))
        with self.assertRaises(ValueError):
            trainer.step()
        same = plan.train(**options("same", steps=4, eval_every=2))
        self.assertEqual(same.loss, steps[3].loss)

    def test_callback_stops_and_the_run_goes_on(self):
        plan, seen = mdl.compile(MODEL), []
        first = plan.train(lambda trainer, step: seen.append(step.step) or step.step < 3, **options("stop", steps=6))
        self.assertEqual((seen, first.step), ([1, 2, 3], 3))
        second = plan.train(**options("stop", steps=6, resume=True))
        whole = plan.train(**options("whole", steps=6))
        self.assertEqual((second.step, second.loss), (6, whole.loss))

    def test_an_exception_saves(self):
        def fail(trainer, step):
            if step.step == 2:
                raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            mdl.compile(MODEL).train(fail, **options("failed", steps=6))
        self.assertTrue(os.path.exists("failed/checkpoints/step-00000002/manifest.json"))

    def test_save_and_lock(self):
        plan = mdl.compile(MODEL)
        trainer = plan.trainer(**options("lock", steps=6))
        trainer.step()
        trainer.save()
        self.assertTrue(os.path.exists("lock/checkpoints/step-00000001/manifest.json"))
        with self.assertRaises(mdl.Error):
            plan.trainer(**options("lock", steps=6, resume=True))
        trainer.close()
        plan.trainer(**options("lock", steps=6, resume=True)).close()
        plan.close()
        gc.collect()

    def test_divergence(self):
        text = model().replace("peak = 1e-2", "peak = 1e30").replace("clip = 1.0", "clip = 1e30")
        with self.assertRaises(mdl.DivergedError) as caught:
            mdl.compile(MODEL, text=text).train(**options("diverged"))
        self.assertEqual(caught.exception.status, 4)
        with open("diverged/log.txt", encoding="utf-8") as file:
            self.assertIn("training diverged", file.read())


class Misuse(unittest.TestCase):
    def test_threads_take_turns(self):
        trainer, seen = mdl.compile(MODEL).trainer(**options("turns", steps=40)), []
        threads = [threading.Thread(target=lambda: seen.extend(one.step for one in trainer)) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(sorted(seen), list(range(1, 41)))
        self.assertEqual(trainer.finish().loss, mdl.compile(MODEL).train(**options("alone", steps=40)).loss)

    def test_closed_in_the_middle_of_a_step(self):
        trainer = mdl.compile(MODEL).trainer(**options("closed", steps=100000))
        thread = threading.Thread(target=lambda: self.assertRaises(ValueError, list, trainer))
        thread.start()
        time.sleep(0.1)
        trainer.close()
        thread.join(30)
        self.assertFalse(thread.is_alive())

    def test_a_forked_process_keeps_no_run_locked(self):
        plan = mdl.compile(MODEL)
        trainer = plan.trainer(**options("unlocked", steps=2))
        trainer.step()
        end, begin = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(begin)
            os.read(end, 1)  # until the other one is through
            os._exit(0)
        trainer.finish()
        trainer.close()
        with plan.trainer(**options("unlocked", steps=3, resume=True)) as again:
            self.assertEqual([step.step for step in again], [2, 3])
        os.close(begin)
        os.close(end)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_forked_process_leaves_the_trainer_alone(self):
        trainer = mdl.compile(MODEL).trainer(**options("forked", steps=2))
        trainer.step()
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # of which a process dies that waits for threads it has not
            try:
                trainer.step()
            except ValueError:
                trainer.close()
                del trainer
                gc.collect()
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual([one.step for one in trainer], [2])
        trainer.close()

    def test_a_run_stays_where_it_is(self):
        here = os.getcwd()
        trainer = mdl.compile(MODEL).trainer(**options("stays", steps=1))
        trainer.step()
        os.makedirs("elsewhere")
        os.chdir("elsewhere")
        try:
            self.assertEqual(trainer.finish().run, os.path.join(here, "stays"))
        finally:
            os.chdir(here)
        self.assertTrue(os.path.exists("stays/checkpoints/step-00000001/manifest.json"))
        self.assertEqual(os.listdir("elsewhere"), [])

    def test_options_that_are_none(self):
        plan = mdl.compile(MODEL)
        for wrong in ({"steps": -5}, {"keep": -1}, {"threads": 2**70}, {"patience": -1}, {"out": "a\0b"}):
            with self.assertRaises(ValueError):
                plan.trainer(**options("none", **wrong) if "out" not in wrong and "threads" not in wrong else wrong)
        with self.assertRaises(mdl.UsageError):
            plan.trainer(**options("none", deadline=math.nan))
        with self.assertRaises(ValueError):
            mdl.compile(MODEL, set={"batch": "4\0"})
        with self.assertRaises(TypeError):
            copy.copy(plan._handle)
        run = plan.train(**options("some", steps=1)).run
        for wrong, error in (({"tokens": -1}, ValueError), ({"temperature": -1}, mdl.UsageError), ({"stops": "ab"}, TypeError),
                             ({"temperature": math.nan}, mdl.UsageError), ({"top_p": 2}, mdl.UsageError),
                             ({"top_p": 0}, ValueError), ({"system": "Be brief."}, mdl.UsageError),
                             ({"stops": [""]}, mdl.UsageError), ({"seed": -1}, ValueError)):
            with self.assertRaises(error, msg=str(wrong)):
                mdl.generate(run, "a", **wrong)
        for wrong in (5, ["a", "b"], b"a"):
            with self.assertRaisesRegex(TypeError, "prompt"):
                mdl.generate(run, wrong)
        for wrong in ("steps", "save_every", "eval_every", "log_every"):
            with self.assertRaisesRegex(ValueError, wrong):
                plan.trainer(**options("none", **{wrong: -1}))
        with self.assertRaisesRegex(ValueError, "steps is a whole number from 0 to 9223372036854775807, not 1180591620717411303424"):
            plan.trainer(**options("none", steps=2**70))
        for wrong in ({"resume": True, "restart": True}, {"trunk": "some"}):
            with self.assertRaises(mdl.UsageError, msg=str(wrong)):
                plan.trainer(**options("none", **wrong))
        with self.assertRaises(ValueError):
            mdl.generate(run, "a\0b")

    def test_lines_of_the_ends_alone(self):
        run = mdl.compile(MODEL).train(**options("ends", steps=4, eval_every=0, log_every=0)).run
        lines = (pathlib.Path(run) / "metrics.jsonl").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r'"step": *([0-9]+), *"loss"', lines), ["1", "4"], lines)

    def test_arguments_of_other_types(self):
        plan = mdl.compile(MODEL)
        run = plan.train(**options("types", steps=1)).run
        for call, said in (
                (lambda: mdl.generate(run, ["a", "b"]), r"prompt is a text \(str\), not a list"),
                (lambda: mdl.generate(run, b"a"), r"prompt is a text \(str\), not a bytes"),
                (lambda: mdl.generate(run, None), r"prompt is a text \(str\), not None"),
                (lambda: mdl.generate([run], "a"), "run is a path, as text or of pathlib, not a list"),
                (lambda: mdl.generate(None, "a"), "run is a path, as text or of pathlib, not None"),
                (lambda: mdl.generate(run, "a", stops="b"), "stops is a list of texts, not a str"),
                (lambda: mdl.generate(run, "a", stops=[1]), r"each of stops is a text \(str\), not an int"),
                (lambda: mdl.generate(run, "a", stops=3), "stops is a list of texts, not an int"),
                (lambda: mdl.generate(run, "a", temperature="0.8"), "temperature is a number, not a str"),
                (lambda: mdl.generate(run, "a", top_p=None), "top_p is a number, not None"),
                (lambda: mdl.generate(run, "a", tokens=2.5), "tokens is a whole number, not a float"),
                (lambda: mdl.generate(run, "a", tokens="2"), "tokens is a whole number, not a str"),
                (lambda: mdl.generate(run, "a", tokens=True), "tokens is a whole number, not a bool"),
                (lambda: mdl.generate(run, "a", chat="no"), "chat is True or False, not a str"),
                (lambda: mdl.generate(run, "a", system=["b"]), r"system is a text \(str\), not a list"),
                (lambda: mdl.generate(run, "a", each=3), "each is a function, not an int"),
                (lambda: mdl.generate(run, "a", device=0), r"device is a text \(str\), not an int"),
                (lambda: mdl.evaluate(3), "run is a path, as text or of pathlib, not an int"),
                (lambda: mdl.evaluate(run, data=["a"]), "data is a path, as text or of pathlib, not a list"),
                (lambda: mdl.evaluate(run, batches="all"), "batches is a whole number, not a str"),
                (lambda: mdl.compile([MODEL]), "file is a path, as text or of pathlib, not a list"),
                (lambda: mdl.compile("model m { axis batch; }"), "file is a path, and this is a text"),
                (lambda: mdl.compile(text=b"a"), r"text is a text \(str\), not a bytes"),
                (lambda: mdl.compile(text=["a"]), r"text is a text \(str\), not a list"),
                (lambda: mdl.compile(MODEL, layout=2), r"layout is a text \(str\), not an int"),
                (lambda: mdl.compile(MODEL, set=3), "set is a dict, or a list of 'name=value', not int"),
                (lambda: mdl.compile(MODEL, set=[("batch", 8)]), r"each of set is a text \(str\), not a tuple"),
                (lambda: mdl.compile(MODEL, watch="layers"), "watch is a list of texts, not a str"),
                (lambda: mdl.compile(MODEL, watch=[1]), r"each of watch is a text \(str\), not an int"),
                (lambda: mdl.open(None), "path is a path, as text or of pathlib, not None"),
                (lambda: mdl.open("a.mdlx", trust="no"), "trust is True or False, not a str"),
                (lambda: plan.write(3), "path is a path, as text or of pathlib, not an int"),
                (lambda: plan.train("callback"), "callback is a function, not a str"),
                (lambda: plan.trainer(resume="yes"), "resume is True or False, not a str"),
                (lambda: plan.trainer(steps=1.5), "steps is a whole number, not a float"),
                (lambda: plan.trainer(keep=True), "keep is a whole number, not a bool"),
                (lambda: plan.trainer(deadline="60"), "deadline is a number, not a str"),
                (lambda: plan.trainer(weights=[run]), "weights is a path, as text or of pathlib, not a list"),
                (lambda: mdl.Trainer(plan), "a trainer is opened by plan.trainer"),
                (lambda: mdl.compile(MODEL, no_such=1), "no_such")):
            with self.assertRaisesRegex(TypeError, said):
                call()
        with plan.trainer(**options("values-of-types", steps=1)) as trainer:
            trainer.step()
            with self.assertRaisesRegex(TypeError, r"name is a text \(str\), not an int"):
                trainer[0]  # pylint: disable=pointless-statement
            with self.assertRaisesRegex(TypeError, r"name is a text \(str\), not None"):
                trainer.value(None)

    def test_interrupted_generation(self):
        run = mdl.compile(MODEL).train(**options("endless", steps=1)).run
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            mdl.generate(run, "a", tokens=10**9)


class Values(unittest.TestCase):
    def test_names_and_facts(self):
        with mdl.compile(MODEL).trainer(**options("values", steps=2)) as trainer:
            step = trainer.step()
            values = {one.name: one for one in trainer.values()}
            value = values["layers.0.q.w"]
            self.assertEqual((value.axes, value.shape, value.type, value.kind, value.nbytes),
                             (("embed", "heads", "hd"), (32, 2, 16), "f32", "parameter", 4096))
            self.assertTrue(value.shared)
            self.assertEqual(values["adamw.m.layers.0.q.w"].kind, "optimizer")
            self.assertEqual(values["loss"].kind, "output")
            self.assertEqual(values["loss"].memory().tolist(), step.loss)
            self.assertEqual(trainer.value("loss").read(), values["loss"].read())
            for one in values.values():
                self.assertEqual(len(one.read()), one.nbytes, one.name)
                self.assertEqual(one.memory().tobytes(), one.read(), one.name)
            with self.assertRaisesRegex(mdl.UsageError, "no value 'layers.9.q.w'"):
                trainer.value("layers.9.q.w")
            with self.assertRaisesRegex(mdl.UsageError, "no value 'layers.0.q'; there are .* such as 'layers.0.q.w'"):
                trainer.value("layers.0.q")

    def test_memory_changes_with_steps_and_outlives_the_trainer(self):
        trainer = mdl.compile(MODEL).trainer(**options("alive", steps=2))
        trainer.step()
        memory = trainer.value("layers.0.attn_norm.scale").memory()
        before = memory.tolist()
        trainer.step()
        after = memory.tolist()
        self.assertNotEqual(before, after)
        with self.assertRaises(TypeError):
            memory[0] = 1.0
        trainer.finish()
        trainer.close()
        del trainer
        gc.collect()
        mdl.compile(MODEL).train(**options("beside", steps=1))
        self.assertEqual(memory.tolist(), after)

    def test_pieces_of_ranks_are_joined(self):
        text = model() + "layout cut { mesh tp = 2; heads, ffn -> tp; }\n"
        whole = mdl.compile(MODEL, text=text, set={"layers": 1}).trainer(**options("one", steps=1))
        cut = mdl.compile(MODEL, text=text, layout="cut", set={"layers": 1}).trainer(**options("two", steps=1))
        whole.step(), cut.step()
        for name in ("layers.0.q.w", "layers.0.attn_norm.scale"):
            one, two = whole.value(name), cut.value(name)
            self.assertTrue(one.shared)
            self.assertEqual(two.shared, name == "layers.0.attn_norm.scale")
            self.assertEqual(one.shape, two.shape)
            a, b = flat(one.memory().tolist()), flat(two.memory().tolist())
            self.assertTrue(all(abs(x - y) < 1e-5 for x, y in zip(a, b)), name)

    @unittest.skipUnless(NUMPY, "without numpy")
    def test_numpy_arrays_stay_read_only(self):
        with mdl.compile(MODEL).trainer(**options("fixed", steps=1)) as trainer:
            trainer.step()
            array = trainer["head.w"]
            with self.assertRaises(ValueError):
                array.flags.writeable = True

    @unittest.skipUnless(NUMPY, "without numpy")
    def test_a_callback_may_return_what_numpy_compares(self):
        import numpy as np
        result = mdl.compile(MODEL).train(lambda trainer, step: np.float32(step.step) < 2, **options("compared", steps=4))
        self.assertEqual(result.step, 2)

    @unittest.skipUnless(NUMPY, "without numpy")
    def test_numpy(self):
        import numpy as np
        with mdl.compile(MODEL).trainer(**options("numpy", steps=3)) as trainer:
            trainer.step()
            array = trainer["layers.0.q.w"]
            address = array.__array_interface__["data"][0]
            before = array.copy()
            trainer.step()
            self.assertFalse(np.array_equal(before, array))
            self.assertEqual(trainer["layers.0.q.w"].__array_interface__["data"][0], address)
            self.assertEqual(array.dtype, np.float32)
            self.assertEqual(array.tobytes(), trainer.value("layers.0.q.w").read())
            self.assertFalse(array.flags.writeable)
            with self.assertRaises(ValueError):
                array[0] = 1
            step = trainer.step()
            self.assertEqual(float(trainer["loss"]), step.loss)
        kept = array[0]
        del array, trainer
        gc.collect()
        self.assertTrue(np.isfinite(kept).all())


class Documents(unittest.TestCase):
    def test_options_are_listed(self):
        page = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
        words = set(re.findall(r"`([a-z_]+)=?", page.read_text(encoding="utf-8")))
        options = set(inspect.signature(mdl.Trainer.__init__).parameters) - {"self", "plan"}
        self.assertEqual(options - words, set())


class Runs(unittest.TestCase):
    def test_evaluate_and_generate(self):
        result = mdl.compile(MODEL).train(**options("used", steps=3))
        evaluation = mdl.evaluate(result.run, device="cpu", batches=2)
        self.assertEqual(evaluation.step, 3)
        self.assertAlmostEqual(evaluation.perplexity, math.exp(evaluation.loss))
        self.assertTrue(evaluation.data.endswith("LICENSE"))
        self.assertEqual((evaluation.unit, evaluation.trained), ("nats per token", False))
        pieces = []
        text = mdl.generate(result.run, "The ", tokens=8, device="cpu", seed=5, each=pieces.append)
        self.assertEqual("".join(pieces), text)
        self.assertEqual(mdl.generate(result.run, "The ", tokens=8, device="cpu", seed=5), text)

        def fail(_):
            raise RuntimeError("mine")
        with self.assertRaisesRegex(RuntimeError, "mine"):
            mdl.generate(result.run, tokens=8, device="cpu", each=fail)
        with self.assertRaises(mdl.InputError):
            mdl.evaluate("nowhere")

    @unittest.skipUnless(NUMPY, "without numpy")
    def test_what_numpy_compares_ends_a_text(self):
        import numpy as np
        run = mdl.compile(MODEL).train(**options("ended", steps=1)).run
        pieces = []
        text = mdl.generate(run, tokens=8, device="cpu", each=lambda piece: (pieces.append(piece), np.bool_(False))[1])
        self.assertEqual([text], pieces)


class Package(unittest.TestCase):
    def test_documents(self):
        for name in mdl.__all__:
            self.assertTrue(getattr(mdl, name).__doc__, name)

    def test_version(self):
        with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            self.assertIn(f"project(mdl VERSION {mdl.__version__} ", file.read())

    @unittest.skipUnless(WHEEL, "no wheel")
    def test_wheel(self):
        import importlib.metadata
        here = os.path.dirname(mdl.__file__)
        self.assertIn("site-packages", here)
        self.assertEqual(importlib.metadata.version("mdl"), mdl.__version__)
        self.assertTrue(os.path.exists(os.path.join(here, "libmdl.so")))
        self.assertTrue(os.access(os.path.join(here, "mdl"), os.X_OK))
        self.assertTrue(os.path.exists(os.path.join(here, "py.typed")))


def flat(nested):
    return [y for x in nested for y in flat(x)] if isinstance(nested, list) else [nested]


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
