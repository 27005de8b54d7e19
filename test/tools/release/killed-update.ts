/**
 * An update on the machine of machine.ts, in a process that a test kills: `node killed-update.ts DIRECTORY SOURCE [STEP]`.
 * With STEP it kills itself where that step begins. It prints each step.
 */
import { rollback, update } from "../../../src/tools/release/update.ts";
import { optionsFor } from "./machine.ts";

const [dir = "", from = "", killedAt] = process.argv.slice(2);
const options = optionsFor(dir, [], {
  ...(from === "rollback" ? {} : { from }),
  onStep: (step) => {
    process.stdout.write(`${step}\n`);
    if (step === killedAt) process.kill(process.pid, "SIGKILL");
  },
});
await (from === "rollback" ? rollback(options) : update(options));
