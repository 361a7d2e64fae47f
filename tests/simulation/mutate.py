#!/usr/bin/python3
"""Writes the mutated copies of mutants.txt: mutate.py LIST SOURCE_ROOT OUT_FOLDER. With --files it only names them, for CMake.

Owns the list's grammar. A piece that no longer stands exactly once in its file is an error: the list must follow the product.
"""
import os
import sys


def fail(number, why):
    sys.exit(f"mutants.txt:{number}: {why}")


def read(path):
    mutants, files, old = [], {}, None
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "mutant":
            name, _, what = rest.partition(": ")
            mutants.append({"name": name, "what": what, "breaks": [], "weather": ""})
        elif word == "breaks:":
            mutants[-1]["breaks"] = [one.strip() for one in rest.split("|")]
        elif word == "weather:":
            mutants[-1]["weather"] = rest.strip()
        elif word == "in":
            edits = files.setdefault(rest, [])
        elif word == "-":
            old = rest
        elif word == "+" and old is not None:
            edits.append((number, mutants[-1]["name"], old, rest))
            old = None
        else:
            fail(number, f"not understood: {line}")
    return mutants, files


def mutated(text, edits):
    for number, name, old, new in edits:
        if text.count(old) != 1:
            fail(number, f"stands {text.count(old)} times in its file, must once: {old}")
        text = text.replace(old, new.replace("$M", f'::spillway::MutantAwake("{name}")'))
    # After the last include, outside every namespace.
    at = text.rindex("\n#include") + 1
    at = text.index("\n", at) + 1
    return text[:at] + "namespace spillway {\nbool MutantAwake(const char* name);\n}\n" + text[at:]


def write(path, text):
    if os.path.exists(path) and open(path, encoding="utf-8").read() == text:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def main():
    if sys.argv[1] == "--files":
        print(";".join(sorted(read(sys.argv[2])[1])))
        return
    list_path, root, out = sys.argv[1:4]
    mutants, files = read(list_path)
    for name, edits in files.items():
        write(os.path.join(out, name), mutated(open(os.path.join(root, name), encoding="utf-8").read(), edits))
    quoted = lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    rows = []
    for mutant in mutants:
        wake = f'[](Hooks*) {{ WakeMutant("{mutant["name"]}"); }}'
        breaks = ", ".join(quoted(one) for one in mutant["breaks"])
        rows.append(f'{{{quoted(mutant["name"])}, {quoted(mutant["what"])}, {wake}, {quoted(mutant["weather"])}, {{{breaks}}}}},\n')
    write(os.path.join(out, "mutants.inc"), "".join(rows))


main()
