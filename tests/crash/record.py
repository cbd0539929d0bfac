"""record.py: what a program did to a directory, in order, from strace; and what a power loss may leave of it.

The record is a list of operations. One on a file (bytes, a new length) is sure to be on the disk once the file was
flushed behind it; one on names (a new file or directory, a rename, a removal), once a directory that it changes was.
An operation that is not sure may be missing, whole or in part, whatever became of others: file systems write names and
bytes in any order. A rename is done or not done, never half.
"""

import collections
import os
import pathlib
import re
import subprocess

CALLS = ("open,openat,creat,write,pwrite64,writev,pwritev,lseek,close,dup,dup2,dup3,fsync,fdatasync,sync,syncfs,rename,renameat,renameat2,mkdir,"
         "mkdirat,unlink,unlinkat,rmdir,truncate,ftruncate,fallocate,link,linkat,symlink,symlinkat")
LINE = re.compile(r"^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)$")
RESULT = re.compile(r"^(.*)\) += (-?\d+)")
STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
NOT_READ = {"writev", "pwritev", "link", "linkat", "symlink", "symlinkat", "fallocate", "dup", "dup2", "dup3", "truncate", "sync", "syncfs"}

# of names: changes = ((directory, name, inode or None), ...); of bytes: data, or None for a new length, at offset
Operation = collections.namedtuple("Operation", "inode changes offset data")
Sync = collections.namedtuple("Sync", "at done inode what")  # begun behind so many operations, ended behind so many


def unescape(text):
    return bytes.fromhex(text.replace("\\x", ""))


class Record:
    """Directories are {name: inode}, files bytes, both by the number of their inode; 0 is the directory itself."""

    def __init__(self, root):
        self.root = os.path.realpath(root)
        self.directories, self.files = {0: {}}, {}
        self.next, self.fds, self.operations, self.syncs = 1, {}, [], []
        self.scan(self.root, 0)
        self.first = ({d: dict(names) for d, names in self.directories.items()}, {f: bytes(data) for f, data in self.files.items()})

    def scan(self, path, inode):
        for entry in sorted(os.scandir(path), key=lambda e: e.name):
            number, self.next = self.next, self.next + 1
            self.directories[inode][entry.name] = number
            if entry.is_dir(follow_symlinks=False):
                self.directories[number] = {}
                self.scan(entry.path, number)
            else:
                self.files[number] = bytearray(pathlib.Path(entry.path).read_bytes())

    def run(self, command, log):
        """Runs it in the directory; returns its status."""
        words = ["strace", "-f", "-qq", "-xx", "-s", "16777216", "-e", f"trace={CALLS}", "-e", "signal=none", "-o", str(log)]
        done = subprocess.run(words + [str(word) for word in command], cwd=self.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, check=False)
        self.read(log)
        return done.returncode, done.stderr

    # --- names ---

    def find(self, path):
        """(directory, name) of a path in the root, else None; the directory is there, the name may not be."""
        path = os.path.join(self.root, os.fsdecode(path))
        folder, name = os.path.split(os.path.normpath(path))
        if os.path.normpath(path) == self.root:
            return None, None
        folder = os.path.realpath(folder) if os.path.isdir(folder) and not folder.startswith(self.root) else folder
        if folder != self.root and not folder.startswith(self.root + "/"):
            return None, None
        at = 0
        for part in folder[len(self.root):].split("/"):
            if part:
                at = self.directories.get(at, {}).get(part)
        return (at, name) if at in self.directories else (None, None)

    def inode(self, path):
        if os.path.normpath(os.path.join(self.root, os.fsdecode(path))) == self.root:
            return 0
        folder, name = self.find(path)
        return None if folder is None else self.directories[folder].get(name)

    def change(self, *changes):
        self.operations.append(Operation(None, changes, 0, None))
        for folder, name, inode in changes:
            if inode is None:
                self.directories[folder].pop(name, None)
            else:
                self.directories[folder][name] = inode

    def put(self, inode, offset, data):
        self.operations.append(Operation(inode, None, offset, data))
        write(self.files[inode], offset, data)

    # --- calls ---

    def read(self, log):
        begun = {}
        for line in pathlib.Path(log).read_text(errors="replace").splitlines():
            found = LINE.match(line)
            if not found:
                continue
            pid, resumed, name, rest = found.groups()
            if rest.endswith("<unfinished ...>"):
                begun[pid] = (rest[:-len("<unfinished ...>")], len(self.operations))
                continue
            at = len(self.operations)
            if resumed:
                name, (before, at) = resumed, begun.pop(pid)
                rest = before + rest
            over = RESULT.match(rest)
            if over and int(over[2]) >= 0:
                self.call(name, over[1], int(over[2]), at)

    def call(self, name, arguments, value, at):
        texts = [unescape(text) for text in STRING.findall(arguments)]
        number = re.match(r"(\d+)", arguments)
        fd = int(number[1]) if number else None
        if name in ("open", "openat", "creat"):
            self.call_open(name, arguments, texts[0], value)
        elif name == "close":
            self.fds.pop(fd, None)
        elif name in NOT_READ and (name.startswith(("sync", "link", "symlink", "truncate")) or fd in self.fds):
            raise SystemExit(f"record.py: {name}({arguments[:200]}) is not understood")
        elif name in ("write", "pwrite64", "lseek", "ftruncate", "fsync", "fdatasync"):
            if fd in self.fds:
                self.call_file(name, arguments, texts, fd, value, at)
        else:
            self.call_names(name, arguments, texts)

    def call_open(self, name, arguments, path, value):
        folder, last = self.find(path)
        inode = self.inode(path)
        if inode is None and folder is None:
            return
        flags = "O_CREAT|O_WRONLY|O_TRUNC" if name == "creat" else arguments
        if inode is None:
            inode, self.next = self.next, self.next + 1
            self.files[inode] = bytearray()
            self.change((folder, last, inode))
        elif "O_TRUNC" in flags and self.files[inode]:
            self.put(inode, 0, None)
        self.fds[value] = [inode, 0, "O_APPEND" in flags]

    def call_file(self, name, arguments, texts, fd, value, at):
        inode, offset, append = self.fds[fd]
        if name in ("fsync", "fdatasync"):
            self.syncs.append(Sync(at, len(self.operations), inode, self.name(inode)))
        elif name == "lseek":
            self.fds[fd][1] = value
        elif name == "ftruncate":
            self.put(inode, int(arguments.rsplit(",", 1)[1]), None)
        elif name == "pwrite64":
            self.put(inode, int(arguments.rsplit(",", 1)[1]), texts[0][:value])
        else:
            offset = len(self.files[inode]) if append else offset
            self.put(inode, offset, texts[0][:value])
            self.fds[fd][1] = offset + value

    def call_names(self, name, arguments, texts):
        places = [self.find(path) for path in texts]
        if not places or places[0][0] is None:
            return
        folder, last = places[0]
        if name.startswith("mkdir"):
            inode, self.next = self.next, self.next + 1
            self.directories[inode] = {}
            self.change((folder, last, inode))
        elif name.startswith("rename"):
            moved, there = self.directories[folder][last], self.directories[places[1][0]].get(places[1][1])
            self.change((folder, last, there if "EXCHANGE" in arguments else None), (*places[1], moved))
        else:
            self.change((folder, last, None))

    def name(self, inode):
        """The path of an inode now."""
        def walk(at, path):
            for name, child in self.directories[at].items():
                if child == inode:
                    return path + name
                if child in self.directories:
                    found = walk(child, path + name + "/")
                    if found:
                        return found
            return None
        return "." if inode == 0 else walk(0, "") or "(removed)"


def moments(record):
    """Between any two events: (operations, syncs) that are over."""
    syncs = 0
    for operations in range(len(record.operations) + 1):
        yield operations, syncs
        while syncs < len(record.syncs) and record.syncs[syncs].done <= operations:
            syncs += 1
            yield operations, syncs


def write(data, offset, piece):
    """Bytes at an offset; None: the file gets that length."""
    if piece is None:
        del data[offset:]
        data.extend(bytes(offset - len(data)))
    else:
        data.extend(bytes(max(0, offset - len(data))))
        data[offset:offset + len(piece)] = piece


class Disk:
    """What is surely on the disk at one moment, and what may be."""

    def __init__(self, record, moment, without=None):
        """Behind so many operations and so many syncs; `without` one of them, as if it had not been."""
        self.record = record
        flushed = collections.defaultdict(int)
        for sync in record.syncs[:moment[1]]:
            if sync is not without:
                flushed[sync.inode] = max(flushed[sync.inode], sync.at)
        self.directories = {d: dict(names) for d, names in record.first[0].items()}
        self.files = {f: bytes(data) for f, data in record.first[1].items()}
        self.pending = []
        for number, operation in enumerate(record.operations[:moment[0]]):
            if operation.changes:
                sure = any(number < flushed[folder] for folder, _, _ in operation.changes)
            else:
                sure = number < flushed[operation.inode]
            if sure:
                apply(self.directories, self.files, operation)
            else:
                self.pending.append(operation)

    def states(self):
        """(which, directories, files) of each state that is tried."""
        pending = self.pending
        yield self.made("all", pending)
        if not pending:
            return
        names = [operation for operation in pending if operation.changes]
        contents = [operation for operation in pending if not operation.changes]
        yield self.made("nothing", [])
        yield self.made("names alone", names)
        yield self.made("bytes alone", contents)
        for operation in names:
            yield self.made(f"all but {operation.changes}", [other for other in pending if other is not operation])
            yield self.made(f"nothing but {operation.changes}", [operation])
        for inode in dict.fromkeys(operation.inode for operation in contents):
            mine = [operation for operation in contents if operation.inode == inode]
            last = mine[-1]
            yield self.made(f"all but file {inode}", [other for other in pending if other.inode != inode or other.changes])
            for change in {id(mine[0]): mine[0], id(last): last}.values():
                yield self.made(f"all but a write to file {inode}", [other for other in pending if other is not change])
            if last.data:
                half = last._replace(data=last.data[:len(last.data) // 2])
                zeros = last._replace(data=bytes(len(last.data)))
                for torn in (half, zeros):
                    yield self.made(f"file {inode} torn", [torn if other is last else other for other in pending])
            yield self.made(f"names and file {inode}", [other for other in pending if other.changes or other.inode == inode])

    def made(self, which, kept):
        directories, files = self.directories, self.files
        if kept:
            directories = {d: dict(names) for d, names in directories.items()}
            files = dict(files)
            for operation in kept:
                apply(directories, files, operation)
        return which, directories, files


def apply(directories, files, operation):
    """On a directory that is there or, since its own name is missing, will not be found."""
    if operation.changes:
        for folder, name, inode in operation.changes:
            if inode is None:
                directories.setdefault(folder, {}).pop(name, None)
            else:
                directories.setdefault(folder, {})[name] = inode
    else:
        data = bytearray(files.get(operation.inode, b""))
        write(data, operation.offset, operation.data)
        files[operation.inode] = bytes(data)


def tree(record, directories, files, at=0, path=""):
    """{path: bytes, or None for a directory} of what is found from the root."""
    found = {}
    for name, inode in directories.get(at, {}).items():
        if inode in record.directories:
            found[path + name] = None
            found.update(tree(record, directories, files, inode, path + name + "/"))
        else:
            found[path + name] = files.get(inode, b"")
    return found


def restore(found, root):
    """Writes a tree into an empty directory."""
    for path, data in found.items():
        place = pathlib.Path(root, path)
        if data is None:
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.write_bytes(data)
