import assert from "node:assert/strict";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { systemMachine } from "../../src/hardware/machine.ts";
import { probeHardware } from "../../src/hardware/probe.ts";
import { tempDir } from "../support/temp-dir.ts";
import { errorCode } from "../../src/lib/error-code.ts";

const coded =
  (code: string) =>
  (error: unknown): boolean =>
    errorCode(error) === code;
const never = new AbortController().signal;

describe("the system's machine", () => {
  it("reads below its root, and distinguishes absent from unreadable files", async () => {
    await using directory = await tempDir();
    const machine = systemMachine(directory.path);
    await mkdir(join(directory.path, "dev/dri"), { recursive: true });
    for (const name of ["renderD1280", "renderD129", "renderD128"])
      await writeFile(join(directory.path, "dev/dri", name), "text\n");
    await symlink("dri/renderD129", join(directory.path, "dev/link"));
    await symlink("nowhere", join(directory.path, "dev/broken"));
    assert.deepEqual(await machine.names("/dev/dri"), ["renderD128", "renderD129", "renderD1280"]);
    assert.deepEqual(await machine.names("/proc"), []);
    assert.deepEqual(await machine.names("/dev/dri/renderD128"), []);
    assert.equal(await machine.text("/dev/dri/renderD128"), "text\n");
    assert.equal(await machine.text("/dev/kfd"), undefined);
    assert.equal(await machine.text("/dev/dri/renderD128/vendor"), undefined);
    await assert.rejects(machine.text("/dev/dri"), coded("EISDIR"));
    assert.equal(await machine.target("/dev/link"), "/dev/dri/renderD129");
    assert.equal(await machine.target("/dev/broken"), undefined);
    assert.equal(await machine.node("/dev/kfd"), undefined);
  });

  it("reports which users may open a file, and whether this user may", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "kfd");
    await writeFile(path, "");
    await chmod(path, 0o640);
    const machine = systemMachine(directory.path);
    const open = await machine.node("/kfd");
    assert.deepEqual([open?.mode, open?.uid, open?.refusal], [0o640, machine.user.uid, undefined]);
    await chmod(path, 0);
    // Root may whatever the mode says.
    assert.equal((await machine.node("/kfd"))?.refusal, machine.user.uid === 0 ? undefined : "EACCES");
  });

  it("reports the free space of a directory", async () => {
    await using directory = await tempDir();
    const { totalBytes, freeBytes } = await systemMachine().space(directory.path);
    assert.ok(totalBytes > 0 && freeBytes <= totalBytes);
    await assert.rejects(systemMachine().space(join(directory.path, "none")), coded("ENOENT"));
  });

  it("runs programs, and ends one that does not answer", async () => {
    const machine = systemMachine();
    assert.equal(await machine.run("printf", ["%s", "a b"], never), "a b");
    await assert.rejects(machine.run("berth-has-no-such-program", [], never), coded("ENOENT"));
    await assert.rejects(machine.run("sh", ["-c", "echo lost >&2; exit 9"], never), /lost/);
    await assert.rejects(
      machine.run("sh", ["-c", "trap '' TERM; exec sleep 3600"], AbortSignal.timeout(50)),
      /it does not answer/,
    );
    await assert.rejects(machine.run("sleep", ["3600"], AbortSignal.abort()), /it does not answer/);
  });
});

it("a probe of the machine that the tests run on has processors, memory and disks", async () => {
  await using directory = await tempDir();
  const modelsDir = join(directory.path, "models", "of", "mine");
  const places = { stateDir: directory.path, modelsDir };
  const found = await probeHardware(systemMachine(), places, AbortSignal.timeout(180_000));
  assert.ok((found.cpu.threads ?? 0) >= 1 && (found.cpu.usable ?? 0) > 0);
  assert.ok((found.memory.usable_bytes ?? 0) > 0);
  const [state, models] = found.disks;
  assert.ok((state?.total_bytes ?? 0) > 0);
  assert.deepEqual(state?.evidence, []);
  assert.deepEqual(models, {
    ...state,
    use: "models",
    path: modelsDir,
    free_bytes: models?.free_bytes ?? null,
    evidence: [{ source: modelsDir, says: `does not exist yet: room of ${directory.path}` }],
  });
});
