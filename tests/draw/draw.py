#!/usr/bin/env python3
"""draw.py: writes well-typed .mdl programs drawn at random, for tests/passes_test.c and tests/layouts_test.c.

    tests/draw/draw.py DIRECTORY FIRST COUNT      # d00017.mdl is the same program on every machine and every day
    tests/draw/draw.py DIRECTORY FIRST COUNT LAYOUTS      # and so many layouts for each; l00017.mdl
"""

import pathlib
import random
import re
import sys

UNARY = [
    "tanh({})", "sigmoid({})", "sin({})", "cos({})", "erf({})", "silu({})", "gelu({})", "relu({})", "abs({})",
    "sqrt(1 + square({}))", "rsqrt(1 + square({}))", "reciprocal(2 + tanh({}))", "exp(-square({}))",
    "log(1 + square({}))", "-{}", "0.5 * {}", "{} + 1", "{} * {}", "stop({}) * {}", "{} / (1 + abs({}))",
    "max({}, 0.2)", "min({}, 0.7)", "(1 + square({})) ^ 0.7", "where({} < 0.1, {}, 0.3 * {})", "sign({}) * {}",
    "1 - 2 * {}", "1.5 ^ tanh({})",
]
REDUCTIONS = ["sum", "mean", "max", "min", "logsumexp"]
UPDATES = ["sgd(lr = 0.1)", "adamw(lr = 0.01, clip = 0.5)", "lion(lr = 0.01)", "sgd(lr = 0.1, nesterov = true, decay = 0.1)"]
MOST_AXES = 5


class Program:
    """A program under construction. A value is a name and the tuple of its axes, sorted."""

    def __init__(self, seed, layouts=0):
        self.random = random.Random(seed)
        self.seed = seed
        self.layouts = layouts
        self.sizes = {"seq": self.size(2, 6)}
        for axis in "abc":
            self.sizes[axis] = self.size(1 if axis == "c" else 2, 5)
        self.axes, self.parameters, self.lines, self.values = [], [], [], []
        self.count = 0
        self.repeated = False
        self.labels = []

    def size(self, low, high):
        """With layouts mostly one that can be cut."""
        if self.layouts and self.random.random() < 0.8:
            return self.random.choice([2, 4, 4, 8] if low > 1 else [1, 2, 4, 4])
        return self.random.randint(low, high)

    def fresh(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def parameter(self, axes, deviation=0.5):
        name = self.fresh("p")
        (self.lines if self.repeated else self.parameters).append(
            f"  param {name}: [{', '.join(axes)}] ~ normal({deviation});")
        return name

    def axis(self, size):
        name = self.fresh("n")
        self.axes.append(f"  axis {name} = {size};")
        self.sizes[name] = size
        return name

    def add(self, expression, axes):
        name, label = self.fresh("v"), ""
        if self.layouts and self.random.random() < 0.15:
            label = f" @{self.fresh('l')}"
            self.labels.append((label[1:], tuple(sorted(axes))))
        self.lines.append(f"  {name} = {expression}{label};")
        self.values.append((name, tuple(sorted(axes))))

    def pick(self):
        return self.random.choice(self.values[-4:] if self.random.random() < 0.7 else self.values)

    def some(self, axes, least=1):
        """A random choice of the axes, in the order in which they stand; not the batch."""
        axes = [axis for axis in axes if axis != "batch"]
        if len(axes) < least:
            return []
        chosen = self.random.sample(axes, self.random.randint(least, len(axes)))
        return [axis for axis in axes if axis in chosen]

    # --- statements; each does nothing where it does not fit ---

    def unary(self):
        name, axes = self.pick()
        self.add(self.random.choice(UNARY).replace("{}", name), axes)

    def binary(self):
        (a, of_a), (b, of_b) = self.pick(), self.pick()
        both = set(of_a) | set(of_b)
        if both in (set(of_a), set(of_b)):
            self.add(f"{a} {self.random.choice('+-*')} {b}", both)
        elif len(both) <= MOST_AXES:
            self.add(f"0.3 * outer({a}, {b})", both)

    def reduce(self):
        name, axes = self.pick()
        over = self.some(axes)
        if over and len(axes) > 1:
            self.add(f"{self.random.choice(REDUCTIONS)}({name} over {', '.join(over)})", set(axes) - set(over))

    def softmax(self):
        name, axes = self.pick()
        over = self.some(axes)
        if over:
            self.add(f"softmax({name} over {', '.join(over)})", axes)

    def product(self):
        name, axes = self.pick()
        into = [axis for axis in "abc" if axis not in axes]
        over = self.some([axis for axis in axes if axis in "abc"])
        if into and over:
            to = self.random.choice(into)
            for _ in range(self.random.choice([1, 1, 2, 3])):
                weight = self.parameter(sorted(over + [to]))
                self.add(f"dot({name}, {weight} over {', '.join(over)})", (set(axes) - set(over)) | {to})

    def layer(self):
        name, axes = self.pick()
        over = self.some([axis for axis in axes if axis in "abc"])
        if over:
            to = self.axis(self.size(1, 5))
            bias = self.random.choice(["", ", bias = true"])
            self.add(f"linear({name} over {', '.join(over)} to {to}{bias}, std = 0.4)", (set(axes) - set(over)) | {to})

    def norm(self):
        name, axes = self.pick()
        over = self.some(axes)[:1]
        if over:
            kind = self.random.choice(["rms_norm", "layer_norm"])
            self.add(f"{kind}({name} over {over[0]}, eps = 0.01)", axes)

    def contract(self):
        (a, of_a), (b, of_b) = self.pick(), self.pick()
        over = self.some([axis for axis in of_a if axis in of_b])
        both = set(of_a) | set(of_b)
        if over and len(both) <= MOST_AXES:
            self.add(f"0.3 * dot({a}, {b} over {', '.join(over)})", both - set(over))

    def scale(self):
        name, axes = self.pick()
        over = self.some(axes)
        if over:
            self.add(f"{name} {self.random.choice('+*')} {self.parameter(over)}", axes)

    def window(self):
        name, axes = self.pick()
        if "seq" in axes:
            tap = self.axis(self.random.randint(1, 4))
            self.add(f"dot(window({name} over seq to {tap}), {self.parameter([tap])} over {tap})", axes)

    def cut(self):
        name, axes = self.pick()
        over = [axis for axis in self.some(axes) if self.sizes[axis] > 1][:1]
        if over:
            size = self.sizes[over[0]]
            first = self.random.randint(1, size - 1)
            a, b = self.axis(size - first), self.axis(first)
            self.add(f"concat({name}[{over[0]}: {first} .. {size} -> {a}] * 2 over {a}, "
                     f"{name}[{over[0]}: 0 .. {first} -> {b}] over {b} -> {over[0]})", axes)

    def one(self):
        name, axes = self.pick()
        over = self.some(axes)[:1]
        if over and len(axes) > 1:
            at = self.random.randint(0, self.sizes[over[0]] - 1)
            self.add(f"{name}[{over[0]}: {at}]", set(axes) - set(over))

    def merge(self):
        name, axes = self.pick()
        over = self.some(axes, 2)[:2]
        if over:
            self.random.shuffle(over)
            whole = self.axis(self.sizes[over[0]] * self.sizes[over[1]])
            pair = f"({over[0]}, {over[1]})"
            back = self.random.choice([pair, f"({over[1]}, {over[0]})"])
            self.add(f"tanh({name}[{pair} -> {whole}] * {self.parameter([whole])})[{whole} -> {back}]", axes)

    def look_up(self):
        name, axes = self.pick()
        if "a" in axes:
            indices = [("who", {"batch", "seq"}), ("(pos(seq) % size(a)) as index(a)", {"seq"})]
            if self.sizes["c"] <= self.sizes["a"]:
                indices.append(("pos(c) as index(a)", {"c"}))
            index, of_index = self.random.choice(indices)
            self.add(f"{name}[{index}]", (set(axes) - {"a"}) | of_index)

    def positions(self):
        name, axes = self.pick()
        if "seq" in axes:
            self.add(self.random.choice([f"where(pos(seq) % 2 == 0, {name}, 0.5 * {name})", f"{name} * (pos(seq) as real)",
                                         f"where(on, {name}, 0.1)"]), set(axes) | {"batch"})

    def attend(self):
        name, axes = self.pick()
        depth = [axis for axis in axes if axis in "abc"]
        if "seq" not in axes or not depth or "batch" not in axes or len(axes) > 4:
            return
        hd, heads = self.axis(self.size(1, 4)), self.axis(self.size(1, 3))
        over = ", ".join(depth)
        q, k, v = (self.fresh(letter) for letter in "qkv")
        for each in (q, k, v):
            self.lines.append(f"  {each} = linear({name} over {over} to {heads}, {hd}, std = 0.4);")
        causal = self.random.choice(["true", "false"])
        self.add(f"attention({q}, {k}[seq -> key], {v}[seq -> key] over {hd}, seq, key, causal = {causal})",
                 (set(axes) - set(depth)) | {heads, hd})

    def drop(self):
        name, axes = self.pick()
        self.add(f"dropout({name}, rate = 0.3)", axes)

    def repeat(self, statements):
        """Some rounds of a few statements, which add to one value: a pipeline can be cut here."""
        name, axes = self.random.choice(self.values)
        carried = self.fresh("x")
        self.lines += [f"  {carried} = {name};", "  repeat layers {"]
        outside, self.values, self.repeated = self.values, [(carried, axes)], True
        for _ in range(self.random.randint(1, 6)):
            self.random.choice(statements)()
        of_round = [value for value, its in self.values if set(its) <= set(axes)]
        self.lines.append(f"  {carried} = 0.7 * {carried} + 0.3 * tanh({self.random.choice(of_round[-3:])});")
        self.lines.append("  }")
        self.values, self.repeated = outside + [(carried, axes)], False

    def draw(self):
        self.parameters.append("  param first: [a] ~ normal(1);")
        self.lines.append("  begin = x * first;")
        self.values = [("begin", ("a", "batch", "seq"))]
        if self.random.random() < 0.5:
            self.values.append(("z", ("b", "batch", "seq")))
        statements = [self.unary] * 6 + [self.binary] * 4 + [self.reduce] * 3 + [self.product] * 3 + [self.contract] * 2 + [
            self.softmax, self.layer, self.norm, self.scale, self.window, self.cut, self.one, self.look_up, self.merge,
            self.positions, self.attend, self.drop]
        rounds = self.random.randint(4, 18)
        for i in range(rounds):
            self.random.choice(statements)()
            if self.layouts and i == rounds // 2 and self.random.random() < 0.5:
                self.repeat(statements)
        terms = ["0.01 * mean(square(begin))"]
        if self.layouts and self.random.random() < 0.9:  # nothing but what the loss needs
            text = "\n".join(self.lines)
            terms += [f"0.1 * mean(tanh({name}))" for name, _ in self.values if len(re.findall(rf"\b{name}\b", text)) == 1]
        last = self.values[-5:]
        for name, _ in self.random.sample(last, min(len(last), self.random.randint(1, 3))):
            form = self.random.choice(["square({})", "abs({})", "tanh({})", "{}"]).replace("{}", name)
            terms.append(f"{self.random.choice(['1', '0.5', '0.1'])} * mean({form})")
        self.lines.append(f"  loss = {' + '.join(terms)};")

    def text(self):
        if self.layouts:
            self.sizes["layers"] = self.random.choice([2, 2, 3, 4])
        sizes = ", ".join(f"{axis} = {size}" for axis, size in self.sizes.items() if axis in ("seq", *"abc", "layers"))
        head = ["import std.nn;", "", "model drawn {", f"  axis batch, {sizes};", "  axis key like seq;"]
        inputs = ["  input x: real[batch, seq, a];", "  input z: real[batch, seq, b];", "  input on: bool[batch, seq];",
                  "  input who: index(a)[batch, seq];"]
        layouts = ["layout two { microbatches = 2; }"]
        for i in range(self.layouts):
            layouts.append(f"layout l{i} {{ {Layout(self).text()} }}")
        tail = ["}", "", *layouts, "", "recipe test {", "  model drawn();", f"  batch = {8 if self.layouts else 4};",
                f"  optimizer {self.random.choice(UPDATES)};", "}", ""]
        name = f"{'l' if self.layouts else 'd'}{self.seed:05}.mdl"
        return "\n".join([f"// {name}: drawn at random."] + head + self.axes + inputs + self.parameters +
                         self.lines + tail)


class Layout:
    """A layout for a program. It need not be legal, but mostly is."""

    def __init__(self, program):
        self.program, self.random = program, program.random
        self.mesh = {}
        most = 12
        for i in range(self.random.choice([1, 1, 2, 2, 3])):
            size = self.random.choice([1] if self.random.random() < 0.08 else [n for n in (2, 2, 3, 4) if n <= most] or [1])
            most //= size
            self.mesh[f"m{i}"] = size
        self.free = dict(self.mesh)  # mesh axes that are not the pipeline's
        self.slots = self.random.choice([1, 1, 2, 4])
        self.cuts = {}  # how many parts each axis has so far
        self.settings = []

    def size(self, axis):
        sizes = dict(self.program.sizes, batch=8 // self.slots, key=self.program.sizes["seq"])
        return sizes[axis]

    def fitting(self, mesh, axes):
        """Axes that this mesh axis can cut; rarely any."""
        fit = [axis for axis in axes if self.size(axis) % (self.cuts.get(axis, 1) * self.mesh[mesh]) == 0]
        return axes if self.random.random() < 0.03 else fit

    def rules(self):
        axes = ["batch", "batch", "seq", "seq", "key", "a", "a", "b", "c"] + [n for n in self.program.sizes if n[0] == "n"]
        for mesh in self.free:
            for _ in range(self.random.choice([0, 1, 1, 2, 2, 3])):
                fit = self.fitting(mesh, axes)
                if fit:
                    axis = self.random.choice(fit)
                    self.cuts[axis] = self.cuts.get(axis, 1) * self.mesh[mesh]
                    self.settings.append(f"{axis} -> {mesh};")
        if self.cuts.get("seq", 1) == 1 and self.free and self.random.random() < 0.15:
            mesh = self.random.choice(list(self.free))
            if self.program.sizes["seq"] % (2 * self.mesh[mesh]) == 0:
                self.settings.append(f"seq -> {mesh}(zigzag);")
                self.cuts["seq"] = 2 * self.mesh[mesh]
        if self.free and self.random.random() < 0.1:
            axis, mesh = self.random.choice(axes), self.random.choice(list(self.free))
            if self.size(axis) >= self.mesh[mesh] and self.cuts.get(axis, 1) == 1 and axis != "batch":
                self.settings.append(f"{axis} -> {mesh}(pad);")

    def scoped(self):
        scopes = list(self.program.labels)
        scopes += [(word, ("seq", "a", "b", "c", *[n for n in self.program.sizes if n[0] == "n"]))
                   for word in ("softmax", "attention", "linear", "layer_norm", "layers") if any(
                       word in line for line in self.program.lines)]
        for scope, axes in scopes:
            if self.free and axes and self.random.random() < 0.4:
                mesh = self.random.choice(list(self.free))
                fit = self.fitting(mesh, [axis for axis in axes if axis != "layers"])
                if fit:
                    to = "none" if self.random.random() < 0.15 else mesh
                    self.settings.append(f"{scope}: {self.random.choice(fit)} -> {to};")

    def stored(self):
        if self.free and self.random.random() < 0.45:
            words = self.random.choice(["state", "grad, state", "param, grad, state", "param", "grad"])
            to = ", ".join(self.random.sample(list(self.free), self.random.choice([1, 1, min(2, len(self.free))])))
            along = f": {self.random.choice(['a', 'b', 'c', 'seq'])}" if self.random.random() < 0.3 else ""
            self.settings.append(f"{words}{along} -> {to};")

    def pipeline(self):
        if "  repeat layers {" not in self.program.lines or self.random.random() < 0.4:
            return
        mesh = self.random.choice(list(self.mesh))
        rounds = self.program.sizes["layers"]
        if self.mesh[mesh] > rounds:
            return
        del self.free[mesh]
        self.settings.append(f"layers -> {mesh};")
        chunks = rounds // self.mesh[mesh]
        schedule = self.random.choice(["", "gpipe", "one_f_one_b", "zero_bubble", "zero_bubble", f"interleaved(chunks = {chunks})"])
        if schedule and ("inter" not in schedule or self.slots % self.mesh[mesh] == 0):
            self.settings.append(f"schedule {schedule};")

    def text(self):
        self.pipeline()
        self.rules()
        self.scoped()
        self.stored()
        if self.random.random() < 0.25:
            words = ["layers"] if "  repeat layers {" in self.program.lines else []
            words += [word for word in ("attention", "softmax", "linear", "gelu") if any(word + "(" in line for line in self.program.lines)]
            words += [label for label, _ in self.program.labels]
            if words:
                self.settings.append(f"recompute {self.random.choice(words)};")
        mesh = ", ".join(f"{name} = {size}" for name, size in self.mesh.items())
        slots = f" microbatches = {self.slots};" if self.slots > 1 else ""
        return f"mesh {mesh};{slots} {' '.join(self.settings)}"


def main():
    directory, first, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    layouts = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    directory.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        program = Program(seed, layouts)
        program.draw()
        (directory / f"{'l' if layouts else 'd'}{seed:05}.mdl").write_text(program.text())


if __name__ == "__main__":
    main()
