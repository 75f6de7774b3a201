print("{{ not a template in a file }}", {"n": len(args["mood"])})
