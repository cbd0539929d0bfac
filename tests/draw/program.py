"""program.py: a program under construction: axes, inputs, parameters, values, and the text in the end.

Statements (statements.py, blocks.py) add to it. A value is a name and a frozenset of axes. What a layout needs to know,
the sizes of axes, labels and other scopes with the axes that they have, is noted on the way.
"""

import random
import re

MOST_AXES = 5
MOST_ELEMENTS = 6144

INPUTS = {
    "x": "real[batch, seq, a]", "z": "real[batch, seq, b]", "turned": "real[a, seq, batch]", "per": "real[batch]",
    "fixed": "real[seq, a]", "on": "bool[batch, seq]", "who": "index(a)[batch, seq]", "when": "index(seq)[batch, c]",
    "tokens": "index(v)[batch, seq]", "targets": "index(v)[batch, seq]", "doc": "int[batch, seq]",
}
# What may make equal numbers of different ones. The largest of equals is a matter of rounding, so `untied` keeps them apart.
TYING = {"tokens", "targets", "who", "when", "doc", "on", "relu", "max", "min", "where", "sign", "floor", "pos", "dropout", "window"}
UPDATES = ["sgd(lr = 0.1)", "adamw(lr = 0.01, clip = 0.5)", "lion(lr = 0.01)", "sgd(lr = 0.1, nesterov = true, decay = 0.1)",
           "adamw(lr = cosine(peak = 0.01, steps = 20, warmup = 2))", "lion(lr = 0.01, clip = 0.2)", "sgd(lr = 0.1, clip = 0.1)"]
OWN_UPDATES = {
    "columns": """update columns(p, g over i..., o..., lr, momentum = 0.9) {
  state m like p = 0;
  m = momentum * m + g;
  return p - lr * m / (sqrt(sum(m * m over i...)) + 0.1);
}""",
    "plain": """update plain(p, g, lr) {
  return p - lr * g * min(1, 1 / (1 + total(sum(abs(g)))));
}""",
    "slow": """update slow(p, g, lr) {
  state m, average like p = 0;
  m = 0.9 * m + g * rsqrt(mean(g * g) + 0.01);
  average = 0.9 * average + 0.1 * p;
  return p - lr * m - 0.01 * (p - average);
}""",
}


class Program:
    """What is drawn so far."""

    def __init__(self, seed, layouts=0):
        self.random = random.Random(f"program {seed}")
        self.seed, self.layouts = seed, layouts
        self.sizes, self.like = {}, {}
        self.axes, self.functions, self.parameters, self.lines, self.values = [], [], [], [], []
        self.groups = []  # selectors for optimizers
        self.weights = []  # (name, axes, whether declared outside of repeats)
        self.count = 0
        self.depth = 0  # of repeats
        self.tied = set()
        self.labels, self.scopes = [], {}  # label, axes; word, axes
        self.repeats = []  # axes of repeats that can be stages
        self.outputs = []
        self.experts, self.routers = [], []  # axes of matrices that are chosen; the names of what scores them, and their axes
        self.meets = False  # samples meet
        self.states = 0
        self.logits = False
        for axis, size in (("seq", self.size(2)), ("a", self.size(2)), ("b", self.size(2)), ("c", self.size(1)), ("v", self.size(3))):
            self.sizes[axis] = size
        long = random.Random(f"long {seed}")
        self.most = MOST_ELEMENTS
        if long.random() < 0.15:  # rows that begin on whole memory lines, or are longer than a block of a kernel
            self.sizes = {axis: min(size, 4) for axis, size in self.sizes.items()}
            axis = long.choice(["a", "a", "b", "v", "seq"])  # there may be matrices of `a` and its like, and more
            self.sizes[axis] = long.choice([290, 301, 528] if axis == "v" else [257, 259, 264])
            self.most = 8 * MOST_ELEMENTS
        self.sizes["batch"] = self.random.choice([8, 8, 8, 12, 6, 4])
        self.add_like("key", "seq")
        self.add_like("other", "batch")

    # --- axes ---

    def size(self, least):
        """Mostly one that can be cut."""
        size = self.random.choice([2, 4, 4, 8, 4, 6, 3, 12, 5, 7, 9, 1])
        return size if size >= least else self.random.choice([4, 4, 3, 5])

    def add_like(self, name, of):
        self.sizes[name], self.like[name] = self.sizes[of], of
        return name

    def prime(self, axis):
        return self.add_like(axis + "'", axis)

    def axis(self, size=None):
        name = self.fresh("n")
        self.sizes[name] = size if size else self.size(1)
        self.axes.append(f"  axis {name} = {self.sizes[name]};")
        return name

    def axis_outside(self, axes, size=None):
        """An axis that a value with these axes does not have: mostly one that there is."""
        others = [n for n in self.sizes if n[0] in "abcn" and n != "batch" and n not in axes and n not in self.like
                  and (size is None or self.sizes[n] == size)]
        return self.random.choice(others) if others and self.random.random() < 0.7 else self.axis(size)

    def elements(self, axes):
        count = 1
        for axis in axes:
            count *= self.sizes[axis]
        return count

    def some(self, axes, least=1, most=9):
        """A random choice of the axes, not the batch; [] if there are too few."""
        axes = sorted(axis for axis in axes if axis not in ("batch", "other"))
        if len(axes) < least:
            return []
        return self.random.sample(axes, self.random.randint(least, min(most, len(axes))))

    # --- names and values ---

    def chance(self, part):
        return self.random.random() < part

    def pick_of(self, *choices):
        return self.random.choice(choices)

    def fresh(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def fits(self, axes):
        return len(axes) <= MOST_AXES and self.elements(axes) <= self.most

    def line(self, text):
        self.lines.append("  " * (self.depth + 1) + text)
        name, made, expression = text.partition(" = ")
        if made and (TYING | self.tied) & set(re.findall(r"\w+", expression)):
            self.tied.add(name.split(":")[0].strip("( ").split()[-1])

    def add(self, expression, axes, name=None):
        """A value. False if it is too large."""
        axes = frozenset(axes)
        if not self.fits(axes):
            return False
        name, label = name or self.fresh("v"), ""
        if self.layouts and self.chance(0.2):
            old = [one for one, its in self.labels if its == axes]
            label = self.random.choice(old) if old and self.chance(0.3) else self.fresh("l")
            self.labels.append((label, axes))
            label = f" @{label}"
        self.line(f"{name} = {expression}{label};")
        self.values.append((name, axes))
        return True

    def untied(self, name, over):
        """The value or expression, as one without equal numbers along these axes."""
        if not (TYING | self.tied) & set(re.findall(r"\w+", name)):
            return name
        return " + ".join([name, *(f"{0.0137 / (i * 1.618 + 1):.5f} * (pos({axis}) as real)" for i, axis in enumerate(over))])

    def pick(self):
        return self.random.choice(self.values[-4:] if self.chance(0.7) else self.values)

    def pick_with(self, *axes):
        """A value with all of these axes, or (None, None)."""
        fit = [value for value in self.values if set(axes) <= value[1]]
        return self.random.choice(fit[-5:]) if fit else (None, None)

    def scope(self, word, axes):
        self.scopes[word] = self.scopes.get(word, frozenset()) | frozenset(axes)

    # --- parameters ---

    def parameter(self, before, behind=(), begin=None):
        """A new parameter, inside of the repeat or outside of it."""
        name = self.fresh("p")
        inside = self.depth > 0 and self.chance(0.8)
        begin = begin or self.pick_of("~ normal(0.5)", "~ normal(0.5)", "~ uniform(-0.5, 0.5)", "= 0.7", "~ scaled(2)" if behind else "= 1")
        axes = ", ".join(before) + (" ; " + ", ".join(behind) if behind else "")
        text = f"param {name}: [{axes}] {begin};"
        if inside:
            self.line(text)
        else:
            self.parameters.append(f"  {text}")
        self.weights.append((name, frozenset(before) | frozenset(behind), not inside))
        if behind and len(before) <= 2:
            self.groups.append(f"{name} matrix")
        else:
            self.groups.append(name)
        return name

    def weight(self, before, behind=()):
        """An expression with these axes made of parameters alone."""
        axes = frozenset(before) | frozenset(behind)
        old = [name for name, its, _ in self.weights if its == axes]
        name = self.random.choice(old) if old and self.chance(0.3) else self.parameter(before, behind)
        if self.chance(0.7):
            return name
        along = ", ".join(self.some(axes, 1)) if axes else ""
        forms = [f"tanh({name})", f"(2 * {name})", f"dropout({name}, rate = 0.2)", f"stop({name})"]
        if along:
            forms += [f"({name} * rsqrt(sum({name} * {name} over {along}) + 0.1))", f"softmax({name} over {along})"]
        form = self.random.choice(forms)
        if self.chance(0.5):
            return form
        made = self.fresh("w")  # a value of its own, which others may read too
        self.line(f"{made} = {form};")
        self.values.append((made, axes))
        return made

    # --- the text ---

    def used(self, name):
        return any(re.search(rf"(?<![\w.]){re.escape(name)}(?![\w'])", line) for line in self.lines + self.functions + self.parameters)

    def add_loss(self):
        text = "\n".join(self.lines)
        terms = []
        for name, axes in self.values:  # what nothing else needs
            if len(re.findall(rf"\b{name}\b", text)) == 1 and self.chance(0.9):
                terms.append(self.term(f"tanh({name})", axes, 0.1))
        last = [value for value in self.values[-5:]]
        for name, axes in self.random.sample(last, min(len(last), self.random.randint(1, 3))):
            form = self.pick_of("square({})", "abs({})", "tanh({})", "{}").replace("{}", name)
            terms.append(self.term(form, axes, self.pick_of(1, 0.5, 0.1)))
        self.lines.append(f"  loss = {' + '.join(terms)};")
        if self.chance(0.25):
            name, axes = self.pick()
            if "batch" in axes or self.chance(0.3):
                self.outputs.append(f"  output out = {self.pick_of(f'mean({name})', f'sum({name})')};")
            else:
                self.outputs.append(f"  output out = {name};")

    def term(self, value, axes, scale):
        if axes == frozenset(("batch", "seq")) and self.chance(0.15):
            return f"{scale} * masked_mean({value}, on)"
        if axes >= {"batch"} and len(axes) > 1 and self.chance(0.2):
            over = self.some(axes)
            return f"{scale} * mean({self.pick_of('max', 'sum', 'logsumexp')}({self.untied(value, over)} over {', '.join(over)}))"
        return f"{scale} * {self.pick_of('mean', 'mean', 'mean', '0.02 * sum')}({value})"

    def runs_in_parts(self):
        """Not where samples meet: in a statement, a state, or what a mean is divided by."""
        return not self.meets and not self.states and not any("masked_mean" in line for line in self.lines)

    def recipe(self):
        lines = [f"  optimizer {self.random.choice(UPDATES)};"]
        own = []
        for _ in range(self.pick_of(0, 0, 1, 2) if self.groups else 0):
            group = self.random.choice(self.groups)
            name = group.split()[0]
            if self.chance(0.2) and len(self.groups) > 2:
                lines.append(f"  freeze {name};")
            elif self.chance(0.4):
                update = "columns" if "matrix" in group else self.pick_of("plain", "slow")
                own.append(OWN_UPDATES[update])
                lines.append(f"  optimizer {name}: {update}(lr = 0.05);")
            else:
                lines.append(f"  optimizer {name}: {self.random.choice(UPDATES)};")
        return list(dict.fromkeys(own)), list(dict.fromkeys(lines))

    def text(self, layouts):
        own, groups = self.recipe()
        inputs = [f"  input {name}: {of};" for name, of in INPUTS.items() if self.used(name)]
        said = "\n".join(inputs + self.lines + self.axes + self.parameters + layouts)
        sizes = ["batch"] + [f"{axis} = {self.sizes[axis]}" for axis in ("seq", "a", "b", "c", "v")
                             if axis == "seq" or re.search(rf"\b{axis}\b", said)]
        likes = [f"{axis} like {of}" for axis, of in self.like.items() if "'" not in axis and self.used(axis)]
        head = ["import std.nn;", "", *own, *self.functions, "model drawn {", f"  axis {', '.join(sizes + likes)};"]
        name = f"{'l' if self.layouts else 'd'}{self.seed:05}.mdl"
        axes = [line for line in self.axes if self.used(line.split()[1])]
        tail = ["}", "", *layouts, "", "recipe test {", "  model drawn();", f"  batch = {self.sizes['batch']};", *groups, "}", ""]
        return "\n".join([f"// {name}: drawn at random."] + head + axes + inputs + self.parameters + self.lines +
                         self.outputs + tail)
