globalThis.args = JSON.parse(require("fs").readFileSync(process.env.RAVEL_ARGS_FILE, "utf8"));
