/**
 * A gateway in a process of its own, which may be given little: `node scarce-gateway.ts PORT` serves the slot `primary`
 * by the engine at that port, prints its address and ends with its input.
 */
import { startGateway } from "../../support/gateway.ts";

const gateway = await startGateway({
  slots: { primary: { port: Number(process.argv[2]), spec: { concurrency: { max: 0, queue: 0 } } } },
});
process.stdout.write(`${gateway.url}\n`);
process.stdin.resume().once("end", () => {
  process.stdout.write(gateway.log());
  process.exit(0);
});
