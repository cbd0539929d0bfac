"""layout.py: a layout for a program. It need not be legal, but mostly is."""

import re


class Layout:
    """Mesh and settings, drawn so that sizes mostly divide."""

    def __init__(self, program, random):
        self.program, self.random = program, random
        self.mesh, self.settings, self.cuts, self.padded = {}, [], {}, set()
        most = random.choice([4, 8, 8, 12])
        for i in range(random.choice([1, 1, 2, 2, 2, 3, 4])):
            fit = [n for n in (2, 2, 2, 3, 4) if n <= most]
            self.mesh[f"m{i}"] = size = 1 if self.chance(0.05) or not fit else random.choice(fit)
            most //= size
        self.free = list(self.mesh)  # mesh axes that are not the pipeline's
        self.slots = 1
        if not (program.meets or program.states) or self.chance(0.05):
            self.slots = random.choice([1, 1, 2, 2, 4, 3])
        if program.sizes["batch"] % self.slots:
            self.slots = 1

    def chance(self, part):
        return self.random.random() < part

    def size(self, axis):
        size = self.program.sizes[axis]
        return size // self.slots if axis == "batch" else size

    def mesh_of(self, count=1):
        return self.random.sample(self.free, min(count, len(self.free)))

    def target(self, axis, mesh):
        """`m0`, with a form where it does not divide or now and then; None: it cannot be cut so."""
        parts = self.cuts.get(axis, 1) * self.mesh[mesh]
        form = ""
        if self.size(axis) % parts or axis in self.padded:
            if self.size(axis) < self.mesh[mesh] or (self.cuts.get(axis, 1) > 1 and not self.chance(0.15)) or axis == "batch":
                return None
            form = "pad"
        elif self.chance(0.12) and self.size(axis) % (2 * parts) == 0 and axis != "batch" and (parts == self.mesh[mesh] or self.chance(0.1)):
            form = "zigzag"
            parts *= 2
        elif self.chance(0.06) and axis != "batch" and parts == self.mesh[mesh]:
            form = "pad"
        if form == "pad":
            self.padded.add(axis)
        self.cuts[axis] = parts
        return f"{mesh}({form})" if form else mesh

    def add_rule(self, axes, scope=""):
        """Cuts one of the axes over one free mesh axis, rarely over two."""
        if not self.free or not axes:
            return
        axis = self.random.choice(sorted(axes))
        if scope and self.chance(0.12):
            self.settings.append(f"{scope}{axis} -> none;")
            return
        targets = [self.target(axis, mesh) for mesh in self.mesh_of(self.random.choice([1, 1, 1, 2]))]
        targets = [one for one in targets if one]
        if targets:
            self.settings.append(f"{scope}{axis} -> {', '.join(targets)};")

    def axes_in_use(self):
        used = set().union(*(axes for _, axes in self.program.values), *self.program.scopes.values()) & set(self.program.sizes)
        return used - {"layers"} - set(self.program.repeats)

    def rules(self):
        used = sorted(self.axes_in_use())
        weighted = used + [axis for axis in ("batch", "batch", "seq", "seq", "a", "key", "v") if axis in used]
        for _ in range(self.random.choice([0, 1, 1, 2, 2, 3, 4]) if used else 0):
            self.add_rule([self.random.choice(weighted)])

    def scopes(self):
        """Each scope with its axes."""
        found = [(f"@{label}: ", axes) for label, axes in self.program.labels]
        for word, axes in self.program.scopes.items():
            found.append((f"{word}: ", axes))
            if word in self.program.repeats:
                found += [(f"{word}.{self.random.randrange(self.program.sizes[word])}: ", axes)] * 2
        found += [(f"{name}: ", axes) for name, axes, _ in self.program.weights]
        return found

    def scoped(self):
        found = self.scopes()
        for scope, axes in self.random.sample(found, min(len(found), self.random.choice([0, 0, 1, 2, 3]))):
            axes = axes & set(self.program.sizes)
            axes -= {"layers", *self.program.repeats}
            if axes:
                self.add_rule(axes, scope)

    def ring(self):
        """Keys go round where queries are cut."""
        axes = self.program.scopes.get("attention", frozenset())
        if "key" in axes and self.free and self.chance(0.3):
            mesh = self.mesh_of()[0]
            if self.program.sizes["seq"] % (2 * self.mesh[mesh]) == 0 and self.cuts.get("seq", 1) == 1 and mesh not in " ".join(self.settings):
                self.settings.append(f"seq -> {mesh}{self.random.choice(['', '(zigzag)'])};")
                self.settings.append(f"attention: key -> {mesh}(ring);")
                self.cuts["seq"] = self.cuts["key"] = 2 * self.mesh[mesh]

    def experts(self):
        """Experts on ranks of their own, which mostly share the batch; what scores them is whole or not."""
        if not self.program.experts or not self.free or self.chance(0.3):
            return
        axis, mesh = self.random.choice(self.program.experts), self.mesh_of()[0]
        target = self.target(axis, mesh)
        if not target:
            return
        self.settings.append(f"{axis} -> {target};")
        if self.chance(0.6) and self.size("batch") % (self.cuts.get("batch", 1) * self.mesh[mesh]) == 0:
            self.cuts["batch"] = self.cuts.get("batch", 1) * self.mesh[mesh]
            self.settings.append(f"batch -> {mesh};")
        self.settings += [f"{router}: {axis} -> none;" for router, of in self.program.routers if of == axis and self.chance(0.8)]

    def stored(self):
        if not self.free or not self.chance(0.45):
            return
        words = self.random.choice(["state", "grad, state", "param, grad, state", "param", "grad", "param, grad", "param, state"])
        to = ", ".join(self.mesh_of(self.random.choice([1, 1, 2])))
        along = ""
        used = sorted(set().union(*(axes for _, axes, _ in self.program.weights)) if self.program.weights else [])
        if used and self.chance(0.35):
            along = f": {self.random.choice(used)}"
        self.settings.append(f"{words}{along} -> {to};")
        if self.chance(0.25) and self.program.scopes:
            scope = self.random.choice(sorted(self.program.scopes) + [name for name, _, _ in self.program.weights])
            self.settings.append(f"{scope}: {self.random.choice(['param', 'state', 'grad'])} -> {self.random.choice(['none', self.mesh_of()[0]])};")

    def pipeline(self):
        if not self.program.repeats or self.chance(0.35):
            return
        axis = self.random.choice(self.program.repeats)
        rounds = self.program.sizes[axis]
        fit = [mesh for mesh in self.mesh if self.mesh[mesh] <= rounds]
        if not fit:
            return
        mesh = self.random.choice(fit)
        stages = self.mesh[mesh]
        self.free.remove(mesh)
        schedules = ["", "", "gpipe", "one_f_one_b", "zero_bubble", "zero_bubble"]
        chunks = self.random.randint(2, rounds // stages) if rounds >= 2 * stages else 0
        if chunks and self.slots % stages == 0 and stages > 1:
            schedules += [f"interleaved(chunks = {chunks})"] * 6
        schedule = self.random.choice(schedules)
        parts = stages * chunks if "inter" in schedule else stages
        counts = ""
        if self.chance(0.3):
            marks = sorted(self.random.sample(range(1, rounds), parts - 1))
            counts = f"({', '.join(str(b - a) for a, b in zip([0] + marks, marks + [rounds]))})"
        self.settings.append(f"{axis} -> {mesh}{counts};")
        if schedule:
            self.settings.append(f"schedule {schedule};")

    def memory(self):
        words = sorted(self.program.scopes) + [f"@{label}" for label, _ in self.program.labels]
        words += [f"{axis}.0" for axis in self.program.repeats]
        variables = sorted({name for line in self.program.lines for name in re.findall(r"^\s*(\w+) = ", line)})
        words += self.random.sample(variables, min(len(variables), 4))
        words += [f"{axis}.*.{self.random.choice(variables)}" for axis in self.program.repeats if variables] + ["*"]
        for setting in ("recompute", "offload"):
            if words and self.chance(0.22):
                self.settings.append(f"{setting} {', '.join(self.random.sample(words, min(len(words), self.random.choice([1, 1, 2]))))};")

    def text(self):
        self.pipeline()
        self.ring()
        self.experts()
        self.rules()
        self.scoped()
        self.stored()
        self.memory()
        if self.chance(0.05):
            self.settings.append("reproducible = strict;")
        mesh = ", ".join(f"{name} = {size}" for name, size in self.mesh.items())
        slots = f" microbatches = {self.slots};" if self.slots > 1 else ""
        return f"mesh {mesh};{slots} {' '.join(self.settings)}"
