import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const program = fileURLToPath(new URL("at-rest.ts", import.meta.url));
const built = fileURLToPath(new URL("../../web/dist", import.meta.url));

async function heldBytes(...args: readonly string[]): Promise<number> {
  const flags = ["--disable-warning=ExperimentalWarning", "--expose-gc"];
  const { stdout } = await run(process.execPath, [...flags, program, ...args]);
  return Number(stdout);
}

it("a gateway at rest that has served all files of both pages holds at most 3 MiB more than one without pages", async (t) => {
  const [without, withPages] = [await heldBytes(), await heldBytes(built)];
  const moreMiB = (withPages - without) / 1024 ** 2;
  t.diagnostic(
    `${(without / 1024 ** 2).toFixed(1)} MiB without pages, ${(withPages / 1024 ** 2).toFixed(1)} MiB with them`,
  );
  assert.ok(without > 1024 ** 2, `${without} bytes are no gateway`);
  assert.ok(moreMiB <= 3, `${moreMiB.toFixed(2)} MiB more`);
});
