import assert from "node:assert/strict";
import { it } from "node:test";
import { BadWorkload, startFailure } from "../../src/runtimes/start-failure.ts";
import { ProcessSite } from "./process/site.ts";

const failed = (code: string): Error => Object.assign(new Error(`spawn ${code}`), { code });

// ETXTBSY: `cp` writes the new version of the program over it at this moment.
for (const code of ["ETXTBSY", "EAGAIN", "ENOMEM", "EMFILE", "ENFILE"]) {
  it(`is no decision on a program that cannot be started for now: ${code}`, async () => {
    await using site = new ProcessSite();
    const workload = site.workload(8081);
    assert.equal(startFailure(failed(code), workload), undefined);
  });
}

it("names the limit of arguments and variables", async () => {
  await using site = new ProcessSite();
  assert.match(
    startFailure(failed("E2BIG"), site.workload(8081)) ?? "",
    /an argument or a variable is larger than 128 KiB/,
  );
});

it("says why a secret is missing, unless it could not be read for a temporary reason", async () => {
  await using site = new ProcessSite();
  const workload = site.workload(8081);
  const unreadable = (code: string): BadWorkload => new BadWorkload("env.KEY", { cause: failed(code) });
  assert.equal(startFailure(unreadable("ENOENT"), workload), "env.KEY");
  assert.equal(startFailure(unreadable("EMFILE"), workload), undefined);
});
