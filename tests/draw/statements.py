"""statements.py: single statements. Each takes a program and adds to it, or does nothing where it does not fit."""

UNARY = [
    "tanh({})", "sigmoid({})", "sin({})", "cos({})", "erf({})", "silu({})", "gelu({})", "relu({})", "abs({})",
    "sqrt(1 + square({}))", "rsqrt(1 + square({}))", "reciprocal(2 + tanh({}))", "exp(-square({}))", "gelu_exact({})",
    "log(1 + square({}))", "-{}", "0.5 * {}", "{} + 1", "{} * {}", "stop({}) * {}", "{} / (1 + abs({}))", "stop({})",
    "max({}, 0.2)", "min({}, 0.7)", "(1 + square({})) ^ 0.7", "where({} < 0.1, {}, 0.3 * {})", "sign({}) * {}",
    "1 - 2 * {}", "1.5 ^ tanh({})", "where(is_finite({}), {}, 0)", "{} + 0.1 * floor(3 * {})", "{} - 0.3", "3 - {}",
]


def unary(p):
    name, axes = p.pick()
    p.add(p.random.choice(UNARY).replace("{}", name), axes)


def binary(p):
    (a, of_a), (b, of_b) = p.pick(), p.pick()
    both = of_a | of_b
    if both in (of_a, of_b):
        form = p.pick_of("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (1.5 + tanh({b}))", "max({a}, {b})", "min({a}, {b})",
                         "where({a} < {b}, {a}, 0.2 * {b})", "where({a} >= {b} and {b} > 0.1, {a}, {b})")
        p.add(form.format(a=a, b=b), both)
    else:
        p.add(f"0.3 * outer({a}, {b})", both)


def reduce(p):
    name, axes = p.pick()
    over = p.some(axes)
    if over and len(axes) > 1:
        kind = p.pick_of("sum", "mean", "max", "min", "logsumexp")
        whole = p.untied(name, over) if kind in ("max", "min") else name
        value = f"{'0.4 * ' if kind == 'sum' else ''}{kind}({whole} over {', '.join(over)})"
        if p.chance(0.3):
            form = p.pick_of("{n} - {r}", "{n} * tanh({r})", "{n} / (1 + square({r}))",
                             "where({n} >= {r}, {n}, 0.2 * {n})" if name not in p.tied else "{n} + {r}")
            p.add(form.format(n=name, r=value), axes)
        else:
            p.add(value, axes - set(over))


def softmax(p):
    name, axes = p.pick()
    over = p.some(axes)
    if over:
        p.scope("softmax", axes)
        p.add(f"softmax({name} over {', '.join(over)})", axes)


def product(p):
    """A matrix times a value, one or several that read the same; there and back."""
    name, axes = p.pick()
    over = p.some([axis for axis in axes if axis not in ("seq", "key") or p.chance(0.2)], 1, 2)
    if not over:
        return
    if len(over) == 1 and over[0] + "'" not in axes and p.chance(0.25):  # a square matrix
        to = p.prime(over[0])
        p.add(f"dot({name}, {p.weight(over, [to])} over {over[0]})[{to} -> {over[0]}]", axes)
        return
    to = p.axis_outside(axes)
    made = (axes - set(over)) | {to}
    for _ in range(p.pick_of(1, 1, 2, 3)):
        if not p.add(f"dot({name}, {p.weight(over, [to])} over {', '.join(over)})", made):
            return
    if p.chance(0.4):
        back = f"dot(tanh({p.values[-1][0]}), {p.weight([to], over)} over {to})"
        p.add(f"{name} + {back}" if p.chance(0.5) else back, axes)


def layer(p):
    name, axes = p.pick()
    over = p.some([axis for axis in axes if axis not in ("seq", "key")], 1, 2)
    if not over:
        return
    to = p.axis_outside(axes)
    kind = p.pick_of("linear", "linear", "mlp", "swiglu", "two")
    bias = p.pick_of("", ", bias = true")
    p.scope("linear", axes | {to})
    if kind == "linear":
        p.add(f"linear({name} over {', '.join(over)} to {to}{bias}, std = 0.4)", (axes - set(over)) | {to})
    elif kind == "two":
        more = p.axis_outside(axes | {to})
        p.add(f"linear({name} over {', '.join(over)} to {to}, {more}{bias}, std = 0.4)", (axes - set(over)) | {to, more})
    else:
        p.scope(kind, axes | {to})
        p.add(f"{kind}({name} over {over[0]} to {to}, std = 0.4)", axes)


def norm(p):
    name, axes = p.pick()
    over = p.some(axes, 1, 1)
    if over:
        kind = p.pick_of("rms_norm", "layer_norm")
        p.scope(kind, axes)
        p.add(f"{kind}({name} over {over[0]}, eps = 0.01)", axes)


def contract(p):
    (a, of_a), (b, of_b) = p.pick(), p.pick()
    over = p.some(of_a & of_b)
    if over:
        p.add(f"0.3 * dot({a}, {b} over {', '.join(over)})", (of_a | of_b) - set(over))


def scale(p):
    name, axes = p.pick()
    over = p.some(axes)
    if over:
        p.add(f"{name} {p.pick_of('+', '*')} {p.weight(over)}", axes)
    elif p.chance(0.3):
        p.add(f"{name} * {p.parameter([])}", axes)


def parameters_alone(p):
    """A value that no sample has a part in."""
    axes = [axis for axis in ("seq", "a", "b", "c") if p.chance(0.4)] or ["a"]
    name = p.weight(axes)
    kind = p.pick_of("tanh({})", "0.5 * {}", "softmax({} over {over})", "sin({})", "{} + (pos({over}) as real) * 0.1",
                     "sum({} * {} over {over})", "dot({}, {} over {over})")
    made = kind.replace("{over}", axes[0]).replace("{}", name)
    gone = {axes[0]} if kind.startswith(("sum", "dot")) else set()
    p.add(made, set(axes) - gone)


def window(p):
    name, axes = p.pick()
    along = p.some(axes, 1, 1)
    if along and p.chance(0.8):
        along = ["seq"] if "seq" in axes else along
        tap = p.axis(p.random.randint(1, 4))
        p.add(f"dot(window({name} over {along[0]} to {tap}), {p.weight([tap])} over {tap})", axes)


def cut(p):
    """Parts of a value in another order."""
    name, axes = p.pick()
    over = [axis for axis in p.some(axes) if p.sizes[axis] > 1][:1]
    if over:
        size = p.sizes[over[0]]
        first = size // 2 if p.chance(0.4) else p.random.randint(1, size - 1)
        a, b = p.axis(size - first), p.axis(first)
        if a == b:
            return
        behind = f"{name}[{over[0]}: {first} .. {size} -> {a}]"
        before = f"{name}[{over[0]}: 0 .. {first} -> {b}]"
        kind = p.random.random()
        if kind < 0.3:
            p.add(behind, (axes - set(over)) | {a})
        elif kind < 0.5 and first * 2 == size:
            p.add(f"{name}[{over[0]}: {first} .. {size} -> {b}] * {p.pick_of('', 'silu')}({before})", (axes - set(over)) | {b})
        else:
            p.add(f"concat({behind} * 2 over {a}, {before} over {b} -> {over[0]})", axes)


def join(p):
    (a, of_a), (b, of_b) = p.pick(), p.pick()
    along = p.some(of_a & of_b, 1, 1)
    if along and of_a == of_b:
        whole = p.axis_outside(of_a, 2 * p.sizes[along[0]])
        second = p.prime(along[0])
        if second in of_a:
            return
        p.add(f"concat({a} over {along[0]}, {b}[{along[0]} -> {second}] over {second} -> {whole})", (of_a - set(along)) | {whole})


def one(p):
    name, axes = p.pick()
    over = p.some(axes, 1, 1)
    if over and len(axes) > 1:
        at = p.random.randint(0, p.sizes[over[0]] - 1)
        p.add(f"{name}[{over[0]}: {at}]", axes - set(over))


def merge(p):
    name, axes = p.pick()
    over = p.some(axes, 2, 2)
    if over:
        size = p.sizes[over[0]] * p.sizes[over[1]]
        whole = p.axis_outside(axes, size)
        pair = f"({over[0]}, {over[1]})"
        back = p.pick_of(pair, f"({over[1]}, {over[0]})")
        merged = f"{name}[{pair} -> {whole}]"
        made = p.pick_of(f"{merged} * {p.weight([whole])}", f"softmax({merged} over {whole})", f"sin({merged})")
        if p.chance(0.4):
            p.add(made, (axes - set(over)) | {whole})
        else:
            p.add(f"tanh({made})[{whole} -> {back}]", axes)


def split(p):
    name, axes = p.pick()
    over = [axis for axis in p.some(axes, 1) if p.sizes[axis] in (4, 6, 8, 9, 12)][:1]
    if over:
        size = p.sizes[over[0]]
        first = p.random.choice([n for n in (2, 3, 4) if size % n == 0])
        major = p.axis_outside(axes, first)
        minor = p.axis_outside(axes | {major}, size // first)
        rest = (axes - set(over)) | {major, minor}
        if not p.add(f"{name}[{over[0]} -> ({major}, {minor})]", rest):
            return
        made = p.values[-1][0]
        if p.chance(0.6):
            p.add(f"({made} - max({p.untied(made, [minor])} over {minor}))[({major}, {minor}) -> {over[0]}]", axes)


def rows(p):
    """Batch and another axis as one."""
    name, axes = p.pick_with("batch")
    along = p.some(axes, 1, 1) if name else []
    if along:
        merged = p.fresh("rows")
        p.axes.append(f"  axis {merged} = batch * {along[0]};")
        p.sizes[merged] = p.sizes["batch"] * p.sizes[along[0]]
        pair = p.pick_of(f"(batch, {along[0]})", f"({along[0]}, batch)") if p.chance(0.2) else f"(batch, {along[0]})"
        rest = (axes - {"batch", along[0]}) | {merged}
        if p.fits(rest):
            p.meets = p.meets or not pair.startswith("(batch")  # samples do not lie together
            p.line(f"of_{merged} = {name}[{pair} -> {merged}];")
            inner = p.some(rest - {merged}, 1, 1)
            form = f"softmax(of_{merged} over {inner[0]})" if inner and p.chance(0.5) else f"sin(of_{merged})"
            p.add(f"({form})[{merged} -> {pair}]", axes)


def positions(p):
    name, axes = p.pick()
    along = p.some(axes, 1, 1)
    if along:
        at = f"pos({along[0]})"
        form = p.pick_of("where({at} % 2 == 0, {n}, 0.5 * {n})", "{n} * ({at} as real)", "where(not ({at} < 2), {n}, 0.1)",
                         "{n} + 0.1 * (({at} * 3 / 2 - 1) as real)", "{n} * cos(0.3 * ({at} as real))",
                         "where({at} == 1 or {at} > 2, {n}, 1 - {n})", "{n} * (({at} != 0) as real)")
        p.add(form.format(at=at, n=name), axes)


def masks(p):
    name, axes = p.pick_with("batch", "seq")
    if name:
        form = p.pick_of("where(on, {n}, 0.1)", "{n} * (on as real)", "where(on and doc != 1, {n}, 0.2 * {n})",
                         "where(not on or pos(seq) > 1, {n}, 0)", "{n} * (((doc * 3 + (who as int)) % 4) as real)",
                         "where(tokens == targets, {n}, 0.5)", "where(step > 1, {n}, 0.3 * {n})", "{n} * (doc as real)")
        p.add(form.format(n=name), axes)


def random_numbers(p):
    name, axes = p.pick()
    form = p.pick_of("dropout({n}, rate = 0.3)", "dropout({n}, rate = 0.3)", "{n} + 0.1 * draw_normal({n})",
                     "where(draw_uniform({n}) < 0.5, {n}, 0)")
    if form.startswith("dropout"):
        p.scope("dropout", axes)
    p.add(form.format(n=name), axes)


def more_input(p):
    name, axes = p.pick_of(("z", ("batch", "seq", "b")), ("turned", ("a", "seq", "batch")), ("per", ("batch",)), ("fixed", ("seq", "a")))
    p.add(f"{name} * {p.pick_of('1', '0.5')}", axes)


# --- lookups ---


def look_up(p):
    """Rows of a value or of a table by an index."""
    of = p.pick_of("a", "seq", "v", "c")
    index, of_index = {
        "a": [("who", {"batch", "seq"}), ("(pos(seq) % size(a)) as index(a)", {"seq"}), ("((who as int) * 2 + 1) as index(a)", {"batch", "seq"})],
        "seq": [("when", {"batch", "c"}), ("(pos(key) / 2) as index(seq)", {"key"}), ("(size(seq) - 1 - pos(key)) as index(seq)", {"key"}),
                ("((when as int) + 1) as index(seq)", {"batch", "c"})],
        "v": [("tokens", {"batch", "seq"}), ("(((tokens as int) + doc) % size(v)) as index(v)", {"batch", "seq"}), ("targets", {"batch", "seq"})],
        "c": [("((tokens as int) % size(c)) as index(c)", {"batch", "seq"}), ("(pos(seq) / 2) as index(c)", {"seq"})],
    }[of][p.random.randrange(3 if of in "av" else 2)]
    name, axes = p.pick_with(of)
    if name is None or p.chance(0.4) or of == "v":
        axes = frozenset([of] + p.some([n for n in ("a", "b", "c", "seq") if n != of], 1, 2))
        name = p.weight(sorted(axes)) if p.chance(0.7) else p.weight([of, *sorted(axes - {of})])
    p.add(f"{name}[{index}]", (axes - {of}) | of_index)


def look_up_twice(p):
    axes = ["a", "v"] + p.some("bc", 1, 1)
    p.random.shuffle(axes)
    p.add(f"{p.weight(axes)}[tokens][who]" if p.chance(0.5) else f"{p.weight(axes)}[who][tokens]", (set(axes) - {"a", "v"}) | {"batch", "seq"})


def top(p):
    """The largest along an axis, or matrices that are chosen by where they are."""
    name, axes = p.pick()
    over = p.some([axis for axis in axes if axis not in ("seq", "key")], 1, 1)
    if not over:
        return
    few = p.axis(p.random.randint(1, min(3, p.sizes[over[0]])))
    made = (axes - set(over)) | {few}
    call = f"top({p.untied(name, over)} over {over[0]} to {few})"
    if p.chance(0.5):
        p.add(f"{call}.0", made)
        return
    of = p.some([axis for axis in ("a", "b", "c", "seq") if axis not in over], 1, 2)
    p.add(f"{p.weight([over[0], *of])}[{call}.1]", made | set(of))


def embed(p):
    to = p.axis_outside({"batch", "seq", "v"})
    p.scope("embedding", {"batch", "seq", to, "v"})
    p.add(f"embedding(tokens over v to {to}, std = 0.5)", {"batch", "seq", to})


def classify(p):
    """A loss by token, mostly with a table that is read before too."""
    name, axes = p.pick_with("batch", "seq")
    over = p.some(axes - {"seq", "v"}, 1, 1) if name and "v" not in axes else []
    if over:
        logits = f"dot({name}, {p.weight(['v'], over) if p.chance(0.3) else p.weight(['v', *over])} over {over[0]})"
        rest = axes - set(over)
        if p.depth == 0 and not p.logits and rest == {"batch", "seq"} and p.chance(0.5):
            p.logits = True
            p.line(f"logits = {logits};")
            logits = "logits"
        kind = p.pick_of("cross_entropy({l}, targets over v)", "cross_entropy({l}, targets over v)", "0.1 * z_loss({l} over v)", "softmax({l} over v)[targets]")
        if kind.startswith("cross") and p.add(kind.format(l=logits), rest):
            p.scope("cross_entropy", rest | {"v"})
        elif not kind.startswith("cross"):
            p.add(kind.format(l=logits), rest)

# --- mixtures and recurrences ---


def chosen_by(p, name, axes, experts):
    """An index of experts, the axes of it, and what weighs its choices or None."""
    over = p.some([axis for axis in axes if axis not in ("seq", "key", experts)], 1, 1)
    kind = p.random.random()
    if over and kind < 0.75 and experts not in axes:
        choice = p.axis(p.random.randint(1, min(3, p.sizes[experts])))
        p.scope("linear", axes | {experts})
        router = p.fresh("router")
        p.scope(router, (axes - set(over)) | {experts})
        scores = p.fresh("r")
        p.line(f"{scores} = linear({name} over {over[0]} to {experts}, std = 0.5, name = {router});")
        p.routers.append((router, experts))
        best, who = p.fresh("t"), p.fresh("who")
        skew = p.pick_of("", "", f" + where(pos({experts}) == {p.random.randrange(p.sizes[experts])}, {p.pick_of('0.5', '3', '50')}, 0)")
        p.line(f"({best}, {who}) = top({p.untied(f'({scores}{skew})', [experts])} over {experts} to {choice});")
        if name in p.tied or skew:
            p.tied.add(best)
        rest = (axes - set(over)) | {choice}
        return who, rest, choice, p.pick_of(f"softmax({best} over {choice})", f"tanh({best})", None)
    if kind < 0.85:
        return f"(((tokens as int) * 5 + pos(seq)) % size({experts})) as index({experts})", {"batch", "seq"}, None, None
    return f"((tokens as int) - 1) as index({experts})", {"batch", "seq"}, None, None


def mixture(p):
    """Products with matrices that an index chooses, and what may stand between them."""
    name, axes = p.pick_with("batch", "seq")
    if not name or "key" in axes or len(axes) > 4:
        return
    experts = p.axis_outside(axes, p.pick_of(2, 3, 4, 4, 6, 8))
    embed = p.some(axes - {"seq", "batch"}, 1, 1)
    if not embed:
        return
    who, of_who, choice, weight = chosen_by(p, name, axes, experts)
    wide = p.axis_outside(axes | of_who | {experts})
    rows = (axes - set(embed)) | of_who
    if experts in rows or embed[0] in of_who or not p.fits(rows | {wide}) or not p.fits(rows | set(embed)):
        return
    p.experts.append(experts)
    i = who
    if " " in who:
        i = p.fresh("i")
        p.line(f"{i} = {who};")
    u = f"dot({name}, {p.weight([experts, embed[0]], [wide])}[{i}] over {embed[0]})"
    made = p.fresh("u")
    if p.chance(0.3):
        u += f" + {p.weight([experts, wide])}[{i}]"
    p.line(f"{made} = {p.pick_of('tanh', 'silu', 'cos', '')}({u});")
    if p.chance(0.25):
        p.line(f"{made} = {made} * {p.pick_of(f'rsqrt(mean(square({made}) over {wide}) + 0.1)', f'sigmoid({made})', f'(0.5 + ({i} as real))')};")
    if p.chance(0.2):
        p.add(f"{made} * 0.5", rows | {wide})
    y = f"dot({made}, {p.weight([experts, wide], embed)}[{i}] over {wide})"
    if p.chance(0.2):
        y += f" + {p.weight([experts, embed[0]])}[{i}]"
    done = rows | set(embed)
    y = f"({y})" if " + " in y else y
    y = f"{y} * {weight}" if weight and of_who <= done else y
    if choice and p.chance(0.8):
        y, done = f"sum({y} over {choice})", done - {choice}
    p.add(f"{name} + {y}" if done == axes and p.chance(0.6) else y, done)
    if choice and not p.states and p.chance(0.3):
        share = f"mean(where({i} == pos({experts}), 1, 0) over {', '.join(sorted(of_who - {'batch'}))})"
        p.add(f"sum({share} * {p.weight([experts])} over {experts})", {"batch"})


def recurrence(p):
    """A scan: linear with a decay of any shape, or not linear along a short axis."""
    along = p.pick_of("seq", "seq", "a", "b")
    name, axes = p.pick_with(along)
    if not name or p.depth > 1 or axes == {along}:
        return
    state = axes - {along}
    carried, decay = p.fresh("h"), p.some(state)
    weight = p.weight(decay) if decay and p.chance(0.5) else None
    other, its = p.pick_with(along)
    fade = p.pick_of(f"sigmoid({other})", f"exp(-square({other}))", f"tanh({other})") if its and its <= axes else "0.7"
    fade = f"sigmoid({weight})" if weight and p.chance(0.6) else fade
    begin = p.pick_of("0", "0.5", p.parameter(sorted(state - {"batch"})) if state - {"batch"} else "1")
    linear = p.pick_of(f"{carried} * {fade} + {name}", f"{fade} * {carried} + {name}", f"0.8 * {carried} - 0.5 * {name}",
                       f"where({name} > 1, {name}, {fade} * {carried} + 0.3 * {name})" if name not in p.tied else f"{carried} * {fade} - {name}")
    short = p.elements({along}) <= 8
    renew = f"tanh({linear})" if short and p.chance(0.3) else linear
    body = [f"carry {carried}: [{', '.join(sorted(state))}] = {begin};"]
    old = p.chance(0.3)
    if old:
        body.append(f"{carried}_old = sin({carried});")
    body.append(f"{carried} = {renew};")
    made = [(carried, axes)] + ([(f"{carried}_old", axes)] if old else [])
    into = p.some(state - {"batch"}, 1, 1)
    if into and p.chance(0.5):
        read = p.fresh("y")
        body.append(f"{read} = sum({carried} * {p.pick_of(name, '0.3')} over {into[0]});")
        made.append((read, axes - set(into)))
    p.line(f"scan {along} {{")
    p.lines += ["  " * (p.depth + 2) + line for line in body]
    p.line("}")
    p.tied |= {one for one, _ in made}
    p.values += made[-2:] if old else made


# --- what crosses samples, and what stays from step to step ---


def meet(p):
    """Samples see each other, so there can be no microbatches."""
    name, axes = p.pick_with("batch")
    if not name or "other" in axes:
        return
    p.meets = True
    depth = p.some(axes, 1, 1)
    form = p.random.randrange(5)
    if form == 0 and depth:
        scores = f"dot({name}, {name}[batch -> other] over {depth[0]})"
        rest = axes - set(depth)
        if p.fits(rest | {"other"}):
            p.add(f"dot(softmax({scores} over other), {name}[batch -> other] over other)", axes)
    elif form == 1 and depth:
        p.scope("attention", axes | {"other"})
        p.add(f"attention({name}, {name}[batch -> other], {name}[batch -> other] over {depth[0]}, batch, other)", axes)
    elif form == 2:
        p.add(f"{name} - mean({name} over batch)", axes)
    elif form == 3:
        p.add(f"{name} * rsqrt(mean(square({name}) over batch) + 0.1)", axes)
    else:
        p.add(f"{name} * {p.parameter(['batch'])}", axes)


def halves(p):
    """Pairs of samples."""
    name, axes = p.pick_with("batch")
    if not name or p.sizes["batch"] % 2:
        return
    p.meets = True
    half, two = p.fresh("half"), p.fresh("two")
    p.sizes[half], p.sizes[two] = p.sizes["batch"] // 2, 2
    p.axes += [f"  axis {half} = batch / 2;", f"  axis {two} = 2;"]
    if p.chance(0.5):
        p.add(f"{name}[batch: 0 .. {half} -> {half}] - {name}[batch: {half} .. batch -> {half}]", (axes - {"batch"}) | {half})
    else:
        p.add(f"{name}[batch -> ({p.pick_of(f'{two}, {half}', f'{half}, {two}')})]", (axes - {"batch"}) | {two, half})


def state(p):
    """A state of the model: read, and renewed by sums over the batch, by a parameter, or by itself."""
    name, axes = p.pick()
    kept = p.some(axes) if axes - {"batch"} and p.chance(0.8) else []
    if p.states > 1:
        return
    p.states += 1
    mine = p.fresh("s")
    p.line(f"state {mine}: [{', '.join(kept)}] = {p.pick_of('0', '0.5', '1')};")
    over = ", ".join(sorted(axes - set(kept)))
    old = [(one, its) for one, its, _ in p.weights if its == frozenset(kept)]
    form = p.pick_of("mean", "sum", "itself", "parameter", "count")
    if form == "parameter" and old:
        renew = f"0.9 * {mine} + 0.1 * stop({p.random.choice(old)[0]})"
    elif form in ("mean", "sum") and over:
        renew = f"0.9 * {mine} + {'0.1' if form == 'mean' else '0.01'} * stop({form}({name} over {over}))"
    elif form == "itself":
        renew = f"max(0.9 * {mine}, 0.3)"
    else:
        renew = f"{mine} + 1"
    if p.chance(0.5):
        p.line(f"{mine} = {renew};")
        p.add(f"{name} {p.pick_of('+', '*')} 0.5 * {mine}", axes)
    else:
        p.add(f"{name} {p.pick_of('+', '*')} 0.5 * {mine}", axes)
        p.line(f"{mine} = {renew};")
