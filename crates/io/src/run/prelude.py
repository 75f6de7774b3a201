def _ravel():
    import json, os, sys
    def show(kind, error, trace):
        import traceback
        # The frames of this prelude are nobody's business.
        while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        traceback.print_exception(kind, error, trace)
    sys.excepthook = show
    path = os.environ["RAVEL_SOURCE"]
    sys.argv = [path]
    with open(path, encoding="utf-8") as file:
        source = file.read()
    with open(os.environ["RAVEL_ARGS_FILE"], encoding="utf-8") as file:
        args = json.load(file)
    return path, compile(source, path, "exec", dont_inherit=True), args
__file__, _ravel, args = _ravel()
exec(_ravel)
