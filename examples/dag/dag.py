#!/usr/bin/env python3
"""Turn recorded scientific workflows into flows, and run them.

Input: JSON lines, one workflow a line: {"id", "tasks": [{"n": type, "p": [parents], "s": seconds}, ...]}. Each task becomes
a wait that is scaled so that the longest path takes the wanted time.

  dag.py list WORKFLOWS.jsonl
  dag.py flow WORKFLOWS.jsonl 3 [--seconds 2] [--copies 1]     the flow of workflow 3, on stdout
  dag.py run  WORKFLOWS.jsonl [3 ...] [--seconds 2] [--ravel ravel]   runs them (all without numbers) and compares the
                                                                makespan with the longest path
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime


def paths(tasks):
    """Longest path, in recorded seconds, that ends with each task."""
    ends = [None] * len(tasks)
    for start in range(len(tasks)):
        stack = [start]
        while stack:
            task = stack[-1]
            missing = [p for p in tasks[task]["p"] if ends[p] is None]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            ends[task] = max((ends[p] for p in tasks[task]["p"]), default=0.0) + tasks[task]["s"]
    return ends


def to_flow(workflow, seconds, copies=1):
    """The flow, and the longest path in milliseconds after rounding."""
    longest = max(paths(workflow["tasks"])) or 1.0
    steps, tasks = {}, []
    for copy in range(copies):
        base = len(workflow["tasks"]) * copy
        for index, task in enumerate(workflow["tasks"]):
            millis = round(task["s"] * seconds * 1000 / longest)
            step = {"wait": f"{millis}ms"}
            if task["p"]:
                step["after"] = [f"t{base + parent}" for parent in task["p"]]
            steps[f"t{base + index}"] = step
            tasks.append({"p": [base + parent for parent in task["p"]], "s": millis})
    name = "dag_" + "".join(c if c.isalnum() else "_" for c in workflow["id"].lower())
    return {"ravel": 1, "name": name, "steps": steps}, max(paths(tasks))


def run(workflow, args, copies=1):
    flow, longest = to_flow(workflow, args.seconds, copies)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flow.json")
        with open(path, "w") as out:
            json.dump(flow, out)
        command = [args.ravel, "--store", os.path.join(folder, "ravel.db"), "run", path, "--json"]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        result = json.loads(ran.stdout.strip().splitlines()[-1])
        shown = subprocess.run(
            [args.ravel, "--store", os.path.join(folder, "ravel.db"), "runs", "show", result["id"], "--json"],
            stdout=subprocess.PIPE, text=True, check=True)
        shown = json.loads(shown.stdout)
    began, ended = (datetime.fromisoformat(shown[key]) for key in ("created", "updated"))
    took = round((ended - began).total_seconds() * 1000)
    ok = result["state"] == "succeeded" and took <= 1.05 * longest + 20
    print(f"{'ok ' if ok else 'BAD'} {len(flow['steps']):5} tasks  path {longest:6.0f} ms  took {took:6} ms  "
          f"x{took / longest:.3f}  {result['state']}  {workflow['id']}", flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "flow", "run"])
    parser.add_argument("workflows")
    parser.add_argument("numbers", nargs="*", type=int)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--copies", type=int, default=1, help="this many copies side by side, as one flow")
    parser.add_argument("--ravel", default="ravel")
    args = parser.parse_args()
    with open(args.workflows) as lines:
        workflows = [json.loads(line) for line in lines]
    chosen = [workflows[n] for n in args.numbers] if args.numbers else workflows
    if args.what == "list":
        for number, workflow in enumerate(workflows):
            print(number, len(workflow["tasks"]), workflow["id"])
    elif args.what == "flow":
        for workflow in chosen:
            json.dump(to_flow(workflow, args.seconds, args.copies)[0], sys.stdout)
            print()
    else:
        good = [run(workflow, args, args.copies) for workflow in chosen]
        print(f"{sum(good)} of {len(good)} within 1.05 x the longest path + 20 ms")
        sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the list has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
