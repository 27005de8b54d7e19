import { runCommandLine } from "./command-line.ts";
import { runEntry } from "../program/entry.ts";

const { env, stdout, stderr } = process;
await runEntry(() =>
  runCommandLine(process.argv.slice(2), {
    env,
    input: () => process.stdin,
    output: stdout,
    screen: stderr,
    write: (text) => void stdout.write(text),
    note: (text) => void stderr.write(text),
  }),
);
