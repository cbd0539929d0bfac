"""blocks.py: what is more than one statement: attention in every spelling, functions with axes of their own, repeats."""

from statements import (binary, contract, cut, layer, look_up, masks, norm, one, parameters_alone, product, random_numbers,
                        reduce, scale, softmax, unary)

# --- attention ---


def projections(p):
    """q, k, v of one value, or k and v of another one: names, axes, the axis of queries and of keys, the depth."""
    name, axes = p.pick_with("seq")
    depth = p.some(axes - {"seq", "key", "other"}, 1, 1) if name and "key" not in axes and len(axes) <= 4 else []
    if not depth:
        return None
    hd = p.axis_outside(axes | {"key"})
    heads = p.some([n for n in ("b", "c", "a") if n not in axes and n != hd], 0, 1) if p.chance(0.6) else []
    rest = (axes - set(depth)) | set(heads)
    if not p.fits(rest | {hd, "key"}):
        return None
    shared = p.chance(0.3)  # one head of keys and values for all
    made = []
    for letter in "qkv":
        its = [] if shared and letter != "q" else heads
        if p.chance(0.5):
            p.scope("linear", rest | {hd})
            text = f"linear({name} over {depth[0]} to {', '.join(its + [hd])}, std = 0.4)"
        else:
            text = f"dot({name}, {p.weight(depth, its + [hd])} over {depth[0]})"
        made.append(p.fresh(letter))
        p.line(f"{made[-1]} = {text};")
    return *made, rest, hd


def keys_of(p, k, v, rest, hd):
    """Keys and values along an axis of their own: renamed, sliced, or a memory without samples."""
    kind = p.random.random()
    if kind < 0.55:
        return f"{k}[seq -> key]", f"{v}[seq -> key]", "key", True
    if kind < 0.75:
        to = p.prime("seq")
        return f"{k}[seq -> {to}]", f"{v}[seq -> {to}]", to, True
    if kind < 0.85 and p.sizes["seq"] > 2:
        past = p.axis(p.sizes["seq"] - 1)
        part = f"[seq: 1 .. {p.sizes['seq']} -> {past}]"
        return f"{k}{part}", f"{v}{part}", past, False
    past = p.axis_outside(rest | {hd})
    return p.weight([past, hd]), p.weight([past, hd]), past, False


def attend(p):
    found = projections(p)
    if not found:
        return
    q, k, v, rest, hd = found
    k, v, key, alike = keys_of(p, k, v, rest, hd)
    made = rest | {hd}
    causal = p.chance(0.6)
    kind = p.random.random()
    if kind < 0.35:
        p.scope("attention", made | {key})
        more = p.pick_of("", "", ", scale = 0.3", ", cap = 2", ", scale = 0.5, cap = 3")
        if alike:  # else a query may see no key
            more += p.pick_of("", "", ", window = 3")
        more += p.pick_of("", "", ", mask = prefix(length = 2)", ", score = alibi(slopes = 0.2)")
        p.add(f"attention({q}, {k}, {v} over {hd}, seq, {key}, causal = {'true' if causal else 'false'}{more})", made)
    elif kind < 0.5 and rest - {"seq", "batch"}:
        heads = sorted(rest - {"seq", "batch"})[0]
        slopes = p.pick_of(f"alibi_slopes(pos({heads}), size({heads}))", f"stop({p.weight([heads])})", f"2 ^ (-(pos({heads}) as real))", p.weight([heads]))
        p.scope("attention", made | {key})
        biased = f"score = alibi(slopes = {slopes})"
        p.add(f"attention({q}, {k}, {v} over {hd}, seq, {key}, causal = {'true' if causal else 'false'}, {biased})", made)
    else:
        written_out(p, (q, k, v, key, hd), made, causal, alike)


def written_out(p, names, made, causal, alike):
    q, k, v, key, hd = names
    scores = p.pick_of("dot({q}, {k} over {hd}) / sqrt(size({hd}))", "dot({q}, {k} over {hd})", "0.5 * dot({q}, {k} over {hd})",
                       "dot(0.5 * {q}, {k} over {hd})", "dot({q}, {k} * 0.5 over {hd})", "dot({q}, {k} over {hd}) - 0.2",
                       "tanh(dot({q}, {k} over {hd}))", "2 * tanh(dot({q}, {k} over {hd}) / 2)",
                       "max(min(dot({q}, {k} over {hd}), 1.5), -1.5)").format(q=q, k=k, hd=hd)
    if p.chance(0.15):
        scores = f"{scores} - outer(0.3, (pos(seq) - pos({key})) as real)"
    if causal:
        masked = p.pick_of("where(pos({key}) <= pos(seq), {s}, -inf)", "where(pos(seq) >= pos({key}), {s}, -inf)",
                           "where(not (pos({key}) > pos(seq)), {s}, -inf)", "where(pos({key}) > pos(seq), -inf, {s})",
                           "where(pos({key}) < pos(seq) + 1, {s}, -inf)", "where(pos({key}) - pos(seq) <= 0, {s}, -inf)",
                           "where(pos({key}) <= pos(seq) and pos(seq) - pos({key}) < 3, {s}, -inf)",
                           "({s}) + where(pos({key}) <= pos(seq), 0, -inf)", "where(pos({key}) <= pos(seq), {s}, -1000)")
        scores = masked.format(key=key, s=scores)
    elif alike and p.chance(0.4):  # every query sees at least its own key
        masked = p.pick_of("where(max(pos(seq) - pos({key}), pos({key}) - pos(seq)) < 3, {s}, -inf)",
                           "where(pos({key}) <= pos(seq) or pos({key}) < 2, {s}, -inf)",
                           "where(pos({key}) / 3 == pos(seq) / 3, {s}, -inf)", "where(pos(seq) - 2 < pos({key}), {s}, -inf)",
                           "{s} - 0.1 * (max(pos(seq) - pos({key}), pos({key}) - pos(seq)) as real)")
        scores = masked.format(key=key, s=scores)
    if alike and key == "key" and p.chance(0.15) and "batch" in made:
        scores = f"where(doc == doc[seq -> key], {scores}, {'-inf' if not causal or '-inf' in scores else '-1000'})"
    s = p.fresh("s")
    p.line(f"{s} = {scores};")
    kind = p.random.random()
    if kind < 0.4:
        weights = f"softmax({s} over {key})"
    else:
        e = p.fresh("e")
        inner = p.pick_of(f"{s} - stop(max({s} over {key}))", f"{s} - max({s} over {key})")
        p.line(f"{e} = exp({inner});")
        if kind < 0.7:
            weights = f"({e} / sum({e} over {key}))"
        elif kind < 0.85:
            p.add(f"dot({e}, {v} over {key}) / sum({e} over {key})", made)
            return
        else:
            weights = f"dropout({e} / sum({e} over {key}), rate = 0.2)"
    p.add(f"dot({weights}, {v} over {key})", made)


def two_attentions(p):
    """The difference of two, and a product of two with one set of keys."""
    found = projections(p)
    if found:
        q, k, v, rest, hd = found
        m = "pos(key) <= pos(seq)"
        r = p.fresh("r")
        p.line(f"{r} = softmax(where({m}, dot({q}, {k}[seq -> key] over {hd}), -inf) over key);")
        t = p.fresh("t")
        p.line(f"{t} = softmax(where({m}, dot({q}, tanh({k})[seq -> key] over {hd}), -inf) over key);")
        p.add(f"dot({r} - {p.pick_of('0.4', p.parameter([]))} * {t}, {v}[seq -> key] over key)", rest | {hd})


def turn(p):
    """Rotary positions."""
    name, axes = p.pick_with("seq")
    along = [axis for axis in p.some(axes - {"seq"}, 1) if p.sizes[axis] % 2 == 0][:1] if name else []
    if along:
        p.scope("rope", axes)
        p.add(f"rope({name} over {along[0]}, seq)", axes)


# --- functions ---


def functions(p):
    """A call of a function of the program's own."""
    name, axes = p.pick()
    along = p.some(axes, 1, 1)
    if not along:
        return
    f, kind = p.fresh("f"), p.random.randrange(6)
    size = p.pick_of(2, 4, 4, 6, 3, 8)
    if kind == 0:
        p.functions.append(f"fn {f}(x, width over i) {{\n  axis h = width;\n  param up: [i ; h] ~ normal(0.4);\n"
                           f"  param down: [h ; i] ~ normal(0.4);\n  return x + dot(tanh(dot(x, up over i)), down over h);\n}}")
        p.scope(f, axes)
        p.add(f"{f}({name}, {size} over {along[0]})", axes)
    elif kind == 1:
        p.functions.append(f"fn {f}(x over i) {{\n  axis h = {size};\n  return linear(gelu(linear(x over i to h, std = 0.4)) over h to i,"
                           f" std = 0.4, name = down);\n}}")
        p.scope(f, axes)
        p.add(f"{f}({name} over {along[0]})", axes)
    elif kind == 2:
        p.functions.append(f"composite fn {f}(x, y over i) {{\n  return x * tanh(y) + sum(x * y over i);\n}}")
        (other, of_other) = p.pick()
        if of_other == axes:
            p.scope(f, axes)
            p.add(f"{f}({name}, {other} over {along[0]})", axes)
    elif kind == 3:
        kind = "sum" if name in p.tied else "max"
        p.functions.append(f"fn {f}(x over i) {{\n  return x - mean(x over i), {kind}(x over i);\n}}")
        first, second = p.fresh("v"), p.fresh("v")
        p.line(f"({first}, {second}) = {f}({name} over {along[0]});")
        p.tied |= {first, second} if name in p.tied else set()
        p.values += [(first, axes), (second, axes - set(along))]
    elif kind == 4:  # shared parameters, in a repeat too
        p.functions.append(f"fn {f}(x over i) {{\n  param w: [i ; i'] ~ normal(0.4);\n  param s: [i] = 1;\n  return tanh(dot(x * s, w over i)[i' -> i]);\n}}")
        if along[0] + "'" not in axes:
            p.prime(along[0])
            for _ in range(p.pick_of(1, 2)):
                p.scope(f, axes)
                p.add(f"{f}({p.values[-1][0] if p.values[-1][1] == axes else name} over {along[0]}, name = {f}w, share = true)", axes)
    else:  # a normalisation with a group of its own
        n = p.sizes[along[0]]
        groups = p.random.choice([g for g in (1, 2, 3, 4) if n % g == 0])
        p.functions.append(f"fn {f}(x over i) {{\n  axis group = {groups}, each = size(i) / {groups};\n  y = x[i -> (group, each)];\n"
                           f"  return (y * rsqrt(mean(y * y over each) + 0.1))[(group, each) -> i];\n}}")
        p.scope(f, axes)
        p.add(f"{f}({name} over {along[0]})", axes)


# --- repeats ---

INSIDE = [unary, binary, reduce, softmax, product, product, layer, norm, contract, scale, scale, attend, cut, look_up, masks, one,
          random_numbers, functions, parameters_alone, turn]


def repeat(p, more=()):
    """Some rounds of a few statements that add to one value or to two: a pipeline can be cut here."""
    if p.depth >= 2:
        return
    axis = "layers" if "layers" not in p.sizes else p.fresh("rounds")
    p.sizes[axis] = p.pick_of(2, 2, 3, 4, 4, 6) if p.depth == 0 else 2
    p.axes.append(f"  axis {axis} = {p.sizes[axis]};")
    if p.depth == 0:
        p.repeats.append(axis)
    carried = []
    for _ in range(p.pick_of(1, 1, 1, 2)):
        name, axes = p.random.choice(p.values)
        carried.append((p.fresh("x"), axes))
        p.line(f"{carried[-1][0]} = {name};")
    outside = list(p.values)
    alone = [(name, axes) for name, axes in outside if name[0] == "w"]
    counter = p.fresh("i") if p.chance(0.4) else None
    p.line(f"repeat {axis}{f' as {counter}' if counter else ''} {{")
    p.depth += 1
    p.values = (outside[-2:] + alone if p.chance(0.4) else []) + carried
    inside = INSIDE + list(more) * 3 + ([repeat] if p.chance(0.15) else [])
    for _ in range(p.random.randint(1, 4)):
        p.random.choice(inside)(p)
    for name, axes in carried:
        fit = [value for value, its in p.values if its <= axes]
        renew = f"{name} = 0.7 * {name} + 0.3 * {p.pick_of('tanh', 'sin', '')}({p.random.choice(fit[-3:])});"
        test = p.pick_of(f"{counter} == 0", f"{counter} % 2 == 1", f"{counter} > 0") if counter else None
        if counter and p.chance(0.6):
            p.line(f"if {test} {{ {renew} }}" + (f" else {{ {name} = sin({name}); }}" if p.chance(0.5) else ""))
        else:
            p.line(renew)
    p.depth -= 1
    p.line("}")
    p.scope(axis, frozenset().union(*(its for _, its in p.values)))
    p.weights = [weight for weight in p.weights if weight[2]]
    p.values = outside + carried


def repeat_of_parameters(p):
    """What a round keeps of parameters alone, behind the repeat."""
    axes = [p.pick_of("a", "b", "c", "seq")]
    begun = p.parameter(axes)
    made = p.fresh("x")
    p.line(f"{made} = {p.pick_of('tanh({})', '{}', '0.5 * {}').format(begun)};")
    p.values.append((made, frozenset(axes)))
    name, of_name = p.pick_with("batch")
    if "layers" in p.sizes or not name:
        return
    p.sizes["layers"] = p.pick_of(2, 4, 4)
    p.axes.append(f"  axis layers = {p.sizes['layers']};")
    p.repeats.append("layers")
    x = p.fresh("x")
    p.line(f"{x} = {name};")
    p.line("repeat layers as i {")
    p.depth += 1
    along = p.some(of_name, 1, 1)
    p.line(f"{x} = 0.3 * {x} + 0.7 * tanh({x}{f' * {p.parameter(along)}' if along else ''});")
    test = p.pick_of("i == 0", "i == 1", "i % 2 == 0")
    p.line(f"if {test} {{ {made} = sin({made}){p.pick_of('', f' * {begun}')}; }}")
    p.depth -= 1
    p.line("}")
    p.scope("layers", of_name)
    p.weights = [weight for weight in p.weights if weight[2]]
    p.values.append((x, of_name))
