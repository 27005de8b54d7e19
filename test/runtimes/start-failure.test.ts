import assert from "node:assert/strict";
import { it } from "node:test";
import { BadWorkload, startFailure } from "../../src/runtimes/start-failure.ts";
import { workload } from "../operator/fixture.ts";

const failed = (code: string): Error => Object.assign(new Error(`spawn ${code}`), { code });
const unreadable = (code: string): BadWorkload => new BadWorkload("env.KEY", { cause: failed(code) });

it("a program that cannot be started is named, unless the machine lacks something for now", () => {
  // ETXTBSY: `cp` writes the new version of the program over it at this moment.
  for (const code of ["ETXTBSY", "EAGAIN", "ENOMEM", "EMFILE", "ENFILE"])
    assert.equal(startFailure(failed(code), workload()), undefined, code);
  const large = /llama-server cannot be started: an argument or a variable is larger than 128 KiB/;
  assert.match(startFailure(failed("E2BIG"), workload()) ?? "", large);
  assert.equal(startFailure(unreadable("ENOENT"), workload()), "env.KEY");
  assert.equal(startFailure(unreadable("EMFILE"), workload()), undefined);
});
