import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { openServices, ServiceFailed } from "../../../src/tools/install/services.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";

/** A user's service manager, whose programs are doubles: they note their arguments, and fail for the unit of the operator. */
async function userManager() {
  const directory = await tempDir();
  const { path } = directory;
  await mkdir(join(path, "run/systemd/private"), { recursive: true });
  const note = `echo "$(basename "$0") $*" >>${path}/called; echo "$XDG_RUNTIME_DIR" >${path}/runtime`;
  const fails = `case $* in
*operator*) echo "Unit is masked." >&2; exit 1 ;;
*restart*standby*) echo "Job for berth-gateway-standby.service failed." >&2; exit 1 ;;
*stop*standby*) echo "Unit berth-gateway-standby.service not loaded." >&2; exit 5 ;;
esac`;
  const says = 'case $0 in *journalctl) echo "port 8080 is taken" ;; esac';
  for (const program of ["systemctl", "journalctl"])
    await writeFile(join(path, program), `#!/bin/sh\n${note}\n${fails}\n${says}\n`, { mode: 0o755 });
  const env = { PATH: `${path}:${process.env["PATH"] ?? ""}`, XDG_RUNTIME_DIR: join(path, "run") };
  return {
    services: openServices({ isSystem: false, env, write: () => assert.fail("a manager runs") }),
    called: async () => (await readFile(join(path, "called"), "utf8")).trimEnd().split("\n"),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

describe("the service manager", () => {
  it("acts on the units of the user, of which one may be missing", async () => {
    await using at = await userManager();
    const { services } = at;
    assert.equal(services.kind, "user");
    await services.reload();
    await services.enable("berth-gateway");
    await services.start("berth-gateway-standby");
    await services.restart("berth-gateway");
    await services.stop("berth-gateway-standby");
    await services.disable("berth-gateway");
    assert.deepEqual(await at.called(), [
      "systemctl --user daemon-reload",
      "systemctl --user enable berth-gateway.service",
      "systemctl --user start berth-gateway-standby.service",
      "systemctl --user restart berth-gateway.service",
      "systemctl --user stop berth-gateway-standby.service",
      "systemctl --user disable berth-gateway.service",
    ]);
  });

  it("says which call failed, and why a unit does not run", async () => {
    await using at = await userManager();
    const { services } = at;
    const error = await rejectionOf(services.start("berth-operator"), ServiceFailed);
    assert.equal(error.message, "`systemctl --user start berth-operator` failed: Unit is masked.");
    // Which names no reason itself.
    const job = await rejectionOf(services.restart("berth-gateway-standby"), ServiceFailed);
    assert.equal(job.message, "`systemctl --user restart berth-gateway-standby` failed: port 8080 is taken");
    assert.equal(await services.isActive("berth-operator"), false);
    assert.equal(await services.isActive("berth-gateway"), true);
    assert.equal(await services.why("berth-gateway"), "port 8080 is taken");
  });

  it("that does not run names the command for each action", async () => {
    await using directory = await tempDir();
    const lines: string[] = [];
    const services = openServices({
      isSystem: false,
      env: { XDG_RUNTIME_DIR: directory.path },
      write: (text) => lines.push(text),
    });
    assert.equal(services.kind, "none");
    await services.reload();
    await services.enable("berth-operator");
    await services.start("berth-operator");
    await services.restart("berth-gateway");
    assert.equal(await services.isActive("berth-gateway"), false);
    assert.deepEqual(lines, [
      "no service manager runs here: run `berth operator` yourself\n",
      "no service manager runs here: restart `berth serve` yourself\n",
    ]);
  });
});
