/** The process of `berth up` after its start: it loads what a supervisor needs, and nothing else. */
import { watchOutput } from "./lost-output.ts";
import { supervise } from "./supervisor.ts";

const [logLevel = "info"] = process.argv.slice(2);
watchOutput();
process.exitCode = await supervise({ env: process.env, logLevel }).ended;
