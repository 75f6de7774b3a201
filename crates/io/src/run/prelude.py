import json, os, sys
def _show(kind, error, trace):
    import traceback
    traceback.print_exception(kind, error, trace.tb_next if trace else None)
sys.excepthook = _show
_path = os.environ["RAVEL_SOURCE"]
sys.argv = [_path]
with open(_path, encoding="utf-8") as _file:
    _code = _file.read()
with open(os.environ["RAVEL_ARGS_FILE"], encoding="utf-8") as _file:
    _args = json.load(_file)
exec(compile(_code, _path, "exec"), {"__name__": "__main__", "__file__": _path, "__builtins__": __builtins__, "args": _args})
