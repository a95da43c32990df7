"""Kernels from their PTX, as a driver gets it: the threads of a block at once, each an element of NumPy's arrays.

Instructions mean what the PTX ISA says; those that are not here, those that approximate or flush among them, are
errors. Threads that part run where the least of them is, so that they meet again. Memory of each space is apart, with
addresses of its own: who takes one for another, or goes beyond the end, is told.
"""

from __future__ import annotations

import re

import numpy as np

from emulated_gpu import POISON, SHARED, WARP
from programs import loaded

BASES = {"local": 1 << 40, "shared": 1 << 41, "global": 1 << 42}
"""Generic addresses of the beginnings of spaces."""

STACK = 1 << 19
"""Bytes of local memory of a thread: of a device, the most that there can be."""

APART = 256
"""Bytes between one array and the next."""

FMA = """
define void @fma(ptr %a, ptr %b, ptr %c, ptr %d, i64 %n) {{
  br label %one
one:
  %k = phi i64 [ 0, %0 ], [ %next, %one ]
  %a.at = getelementptr {t}, ptr %a, i64 %k
  %b.at = getelementptr {t}, ptr %b, i64 %k
  %c.at = getelementptr {t}, ptr %c, i64 %k
  %d.at = getelementptr {t}, ptr %d, i64 %k
  %x = load {t}, ptr %a.at
  %y = load {t}, ptr %b.at
  %z = load {t}, ptr %c.at
  %w = call {t} @llvm.fma.{f}({t} %x, {t} %y, {t} %z)
  store {t} %w, ptr %d.at
  %next = add i64 %k, 1
  %end = icmp eq i64 %next, %n
  br i1 %end, label %done, label %one
done:
  ret void
}}
declare {t} @llvm.fma.{f}({t}, {t}, {t})
"""
FUSED = {f: loaded(FMA.format(t=t, f=f)) for t, f in (("float", "f32"), ("double", "f64"))}


def kind(suffix):
    """NumPy's type of PTX's: bits are whole numbers without a sign."""
    return np.dtype({"f": "f", "s": "i", "u": "u", "b": "u"}[suffix[0]] + str(int(suffix[1:]) // 8))


def fma(suffix, x, y, z):
    """x y + z, rounded once."""
    import ctypes

    x, y, z = map(np.ascontiguousarray, (x, y, z))
    found, code = np.empty_like(x), FUSED[suffix]
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(code.address("fma"))
    run(*(a.ctypes.data for a in (x, y, z, found)), x.size)
    return found


def least(x, y, sign):
    """The smaller number, or with a sign of -1 the larger one: not NaN if there is another; -0 is below 0."""
    if x.dtype.kind != "f":
        return np.minimum(x, y) if sign > 0 else np.maximum(x, y)
    first = (sign * x < sign * y) | ((x == y) & (np.signbit(x) == (sign > 0))) | np.isnan(y)
    return np.where(first, x, y)


def wide(x):
    return x.astype(np.dtype(x.dtype.kind + str(2 * x.dtype.itemsize)))


def shifted(x, by, left):
    """Shifts of a whole type's width and more leave nothing, or the sign."""
    by, most = by.astype(np.int64), 8 * x.dtype.itemsize
    small = np.minimum(by, most - 1).astype(x.dtype)
    if left:
        return np.where(by >= most, 0, x << small).astype(x.dtype)
    return (x >> small) if x.dtype.kind == "i" else np.where(by >= most, 0, x >> small).astype(x.dtype)


BINARY = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "and": lambda x, y: x & y, "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y, "min": lambda x, y: least(x, y, 1), "max": lambda x, y: least(x, y, -1),
    "mul": lambda x, y: x * y, "div": lambda x, y: x / y, "copysign": lambda x, y: np.copysign(y, x),
}  # fmt: skip
UNARY = {"neg": lambda x: -x, "abs": np.abs, "sqrt": np.sqrt, "rcp": lambda x: x.dtype.type(1) / x, "not": lambda x: ~x}
COMPARED = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
            "ge": np.greater_equal}  # fmt: skip
FLOATS = {f"{op}{rounding}.{f}" for f in ("f32", "f64") for op, rounding in (
    ("add", ""), ("sub", ""), ("mul", ""), ("add", ".rn"), ("sub", ".rn"), ("mul", ".rn"), ("div", ".rn"),
    ("sqrt", ".rn"), ("rcp", ".rn"), ("neg", ""), ("abs", ""), ("min", ""), ("max", ""), ("copysign", ""))}  # fmt: skip
"""Operations on floating-point numbers that are exact, or rounded to nearest, and keep denormal ones."""

WHOLE = re.compile(r"(add|sub|min|max)\.[su](32|64)|(and|or|xor|not)\.(b32|b64|pred)|neg\.s(32|64)|abs\.s(32|64)")


class Function:
    """Statements, places of labels, parameters, and bytes of local memory."""

    def __init__(self, parameters, body):
        self.parameters = re.findall(r"(\w+)\s*(?:,|$)", parameters.strip())
        self.local = sum(map(int, re.findall(r"\.local [^;]*__local_depot\d+\[(\d+)\]", body)))
        body = re.sub(r"\.(reg|local|param) [^;]*;|[{}]", " ", body)
        self.statements, self.labels = [], {}
        for part in body.split(";"):
            for label in re.findall(r"(\$?\w+):", part):
                self.labels[label] = len(self.statements)
            words = re.sub(r"\$?\w+:", "", part).split(None, 1)
            guard = None
            if words and words[0].startswith("@"):
                guard, *words = words[0][1:], *words[1].split(None, 1)
            if words:
                rest = words[1] if len(words) > 1 else ""
                operands = [x.strip() for x in re.findall(r"\{[^}]*\}|\[[^]]*\]|\([^)]*\)|[^,\s]+", rest)]
                self.statements.append((guard, words[0], operands))


class Module:
    """PTX of a kernel, and runs of it."""

    def __init__(self, text):
        text = re.sub(r"//.*", "", text)
        self.functions = {
            name: Function(given, body)
            for name, given, body in re.findall(
                r"\.(?:func|entry)\s+(\w+)\((.*?)\)[^;{]*\{\n(.*?)\n\}\n", text.replace("\r", ""), re.S
            )
        }
        self.tables = {}
        declared = r"\.(?:global|const) [^;=]*\.b(8|32) ([\w$]+)\[(\d+)\] = \{([^}]*)\}"
        for bits, name, size, numbers in re.findall(declared, text):
            table = np.zeros(int(size), f"u{int(bits) // 8}")  # of which zeros at the end are not written
            given = [int(x, 0) for x in numbers.split(",")]
            table[: len(given)] = given
            self.tables[name] = table

    def launch(self, grid, block, shared, parameters, arrays):
        """Run a grid. ``parameters`` are bit patterns, or names of ``arrays``, which the kernel may change."""
        held, size = {**{f"table {k}": x for k, x in self.tables.items()}, **arrays}, APART
        self.places = {}
        for name, x in held.items():
            self.places[name] = size
            size += (x.nbytes // APART + 2) * APART
        memory = np.full(size // 2, POISON, np.uint16).view(np.uint8)
        owned = np.zeros(size, bool)
        for name, x in held.items():
            at = self.places[name]
            memory[at : at + x.nbytes] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
            owned[at : at + x.nbytes] = True
        self.owned, self.memory = owned, {"global": memory}
        values = [BASES["global"] + self.places[p] if isinstance(p, str) else p for p in parameters]
        for k in range(grid):
            self.special = {
                "%tid.x": np.arange(block, dtype=np.uint32), "%ctaid.x": np.full(block, k, np.uint32),
                "%ntid.x": np.full(block, block, np.uint32), "%nctaid.x": np.full(block, grid, np.uint32),
            }  # fmt: skip
            self.n, self.shared = block, shared
            self.memory["shared"] = np.full(SHARED // 2, POISON, np.uint16).view(np.uint8)
            self.memory["local"] = np.full((block, STACK // 2), POISON, np.uint16).view(np.uint8)
            given = [np.full(block, v, np.uint64) for v in values]
            with np.errstate(all="ignore"):
                self.run("kernel", given, np.ones(block, bool), 0)
        for name, x in arrays.items():
            at = self.places[name]
            x.reshape(-1).view(np.uint8)[:] = memory[at : at + x.nbytes]

    def run(self, name, given, mask, stack):
        """A function, for the threads of a mask, with its frame so far up the local memory."""
        function = self.functions[name]
        frame = Frame(self, function, given, stack)
        at = np.where(mask, 0, -1)
        while True:
            going = at >= 0
            if not going.any():
                return
            k = int(at[going].min())
            now = at == k
            guard, instruction, operands = function.statements[k]
            if guard:
                holds = frame.read(guard.lstrip("!"), "pred") != guard.startswith("!")
                taken = now & holds
            else:
                taken = now
            at[now] = k + 1
            if instruction in ("bra", "bra.uni"):
                at[taken] = function.labels[operands[0]]
            elif instruction == "ret":
                at[taken] = -1
            elif taken.any():
                frame.do(instruction, operands, taken)


class Frame:
    """Registers of a function, and of calls that it makes the parameters."""

    def __init__(self, module, function, given, stack):
        self.module, self.registers, self.stack = module, {}, stack
        self.above = stack + -(-function.local // 16) * 16
        assert self.above <= STACK, "the local memory is full"
        self.parameters = dict(zip(function.parameters, given, strict=True))

    def read(self, name, suffix):
        """Values of an operand, as a type has them."""
        n = self.module.n
        if suffix == "pred":
            return self.registers[name]
        wanted = kind(suffix)
        if name in self.registers:
            found = self.registers[name]
        elif name in self.module.special:
            found = self.module.special[name]
        elif name[:2] in ("0f", "0d"):
            found = np.full(n, int(name[2:], 16), f"u{len(name[2:]) // 2}")
        elif re.fullmatch(r"-?\d+", name):
            found = np.full(n, int(name) % (1 << (8 * wanted.itemsize)), f"u{wanted.itemsize}")
        elif name == "tiles":
            found = np.zeros(n, np.uint64)
        elif name.startswith("__local_depot"):
            found = np.full(n, self.stack, np.uint64)
        else:
            found = np.full(n, BASES["global"] + self.module.places[f"table {name}"], np.uint64)
        assert found.dtype.itemsize == wanted.itemsize, f"{name} is no {suffix}"
        return found.view(wanted)

    def write(self, name, value, mask):
        if value.dtype != bool:
            value = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
        old = self.registers.get(name, value)
        self.registers[name] = value if mask.all() else np.where(mask, value, old)

    def do(self, instruction, operands, mask):
        """One instruction that leads to the next."""
        operation, *parts = instruction.split(".")
        suffix = parts[-1] if parts else ""
        if operation in ("ld", "st"):
            return self.move(operation, parts, operands, mask)
        if instruction == "call.uni":
            given = [self.parameters[x] for x in operands[1].strip("()").replace(",", " ").split()]
            return self.module.run(operands[0], given, mask, self.above)
        if instruction == "bar.warp.sync":
            assert operands == ["-1"]
            whole = mask.reshape(-1, WARP)
            assert (whole.all(axis=1) | ~whole.any(axis=1)).all(), "threads of a warp wait for others elsewhere"
            return None
        target, *rest = operands
        if operation == "cvta":
            space = parts[-2]
            base = np.uint64(0 if space == "global" else BASES[space])
            x = self.read(rest[0], "b64")
            return self.write(target, x - base if parts[0] == "to" else x + base, mask)
        if operation == "mov":
            return self.write(target, self.read(rest[0], suffix), mask)
        if operation == "setp":
            x, y = (self.read(name, suffix) for name in rest)
            how = parts[0]
            if how == "nan":
                return self.write(target, np.isnan(x) | np.isnan(y), mask)
            found = COMPARED[how.rstrip("u") if how != "neu" and how != "equ" else how[:2]](x, y)
            if how.endswith("u"):
                found = found | np.isnan(x) | np.isnan(y)
            elif x.dtype.kind == "f" and how == "ne":
                found = found & ~np.isnan(x) & ~np.isnan(y)
            return self.write(target, found, mask)
        if operation == "selp":
            x, y = (self.read(name, suffix) for name in rest[:2])
            return self.write(target, np.where(self.read(rest[2], "pred"), x, y), mask)
        if operation == "cvt" and len(parts) == 2 and "f" not in parts[0][0] + parts[1][0]:
            return self.write(target, self.read(rest[0], parts[1]).astype(kind(parts[0])), mask)
        if operation in ("shl", "shr"):
            return self.write(
                target, shifted(self.read(rest[0], suffix), self.read(rest[1], "u32"), operation == "shl"), mask
            )
        values = [self.read(name, suffix) for name in rest[:2]]
        if instruction in FLOATS or WHOLE.fullmatch(instruction):
            return self.write(target, (UNARY if len(rest) == 1 else BINARY)[operation](*values), mask)
        if instruction in ("fma.rn.f32", "fma.rn.f64"):
            return self.write(target, fma(suffix, *values, self.read(rest[2], suffix)), mask)
        if operation in ("mul", "mad") and parts[0] in ("lo", "hi", "wide") and suffix[0] in "su":
            product = wide(values[0]) * wide(values[1]) if parts[0] != "lo" else values[0] * values[1]
            if parts[0] == "hi":
                product = (product >> (8 * values[0].dtype.itemsize)).astype(values[0].dtype)
            if operation == "mad":
                product = product + self.read(rest[2], f"{suffix[0]}{8 * product.dtype.itemsize}")
            return self.write(target, product, mask)
        raise NotImplementedError(f"{instruction} {', '.join(operands)}")

    def move(self, operation, parts, operands, mask):
        """Loads and stores, of vectors too."""
        space, suffix = parts[0], parts[-1]
        assert parts[1:-1] in ([], ["v2"], ["v4"], ["nc"]), parts
        address, registers = operands if operation == "st" else operands[::-1]
        base, _, offset = address.strip("[]").partition("+")
        names, size = registers.strip("{}").replace(",", " ").split(), kind(suffix).itemsize
        if space == "param":
            assert not int(offset or 0) and len(names) == 1
            if operation == "st":
                self.parameters[base] = self.read(names[0], suffix).view(f"u{size}").astype(np.uint64)
            else:
                self.write(names[0], self.parameters[base].astype(f"u{size}"), mask)
            return
        start = (
            self.read(base, "u64").astype(np.int64) + int(offset or 0) - (BASES["global"] if space == "global" else 0)
        )
        assert not (start[mask] % (size * len(names))).any(), f"{space} memory: an address between numbers"
        memory, lanes = self.module.memory[space], np.flatnonzero(mask)
        ends = {"local": self.above, "shared": self.module.shared, "global": len(self.module.owned)}
        inside = (start[mask] >= 0) & (start[mask] + size * len(names) <= ends[space])
        if inside.all() and space == "global":
            inside = self.module.owned[start[mask]] & self.module.owned[start[mask] + size * len(names) - 1]
        assert inside.all(), f"{space} memory: an address beyond the ends"
        numbers = memory.view(f"u{size}")
        for k, name in enumerate(names):
            at = start[mask] // size + k
            index = (lanes, at) if space == "local" else at
            if operation == "st":
                numbers[index] = self.read(name, suffix).view(f"u{size}")[mask]
            else:
                found = np.zeros(self.module.n, f"u{size}")
                found[mask] = numbers[index]
                if name.startswith("%rd") and size < 8:  # wider registers are filled up
                    found = found.view(kind(suffix)).astype("i8" if suffix[0] == "s" else "u8")
                self.write(name, found, mask)
