import assert from "node:assert/strict";
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { checkForUpdate, rollback, update } from "../../../src/tools/release/update.ts";
import { CommandError } from "../../../src/cli/client.ts";
import { temporaryFor } from "../../../src/lib/atomic-file.ts";
import { writeJournal } from "../../../src/tools/release/journal.ts";
import { readRecord } from "../../../src/tools/install/installed-record.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";
import {
  install,
  layoutIn,
  machine,
  makeArchive,
  makeTree,
  optionsFor,
  publish,
  stateOf,
  type Made,
} from "./machine.ts";

/** A machine with Berth 0.1.0, and a publisher with these releases. */
async function scene(...releases: readonly Made[]) {
  const directory = await tempDir();
  const dir = join(directory.path, "machine");
  await install(dir, { version: "0.1.0" });
  const index = await publish(join(directory.path, "published"), ...releases);
  const said: string[] = [];
  return {
    dir,
    index,
    published: join(directory.path, "published"),
    said,
    options: (more = {}) => optionsFor(dir, said, { from: index, ...more }),
    record: async () => {
      const { version, previous } = (await readRecord(layoutIn(dir))) ?? {};
      return { version, previous };
    },
    files: async () => (await readdir(layoutIn(dir).prefix)).toSorted(),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

const all = (version: string): object => ({
  current: version,
  works: version,
  operator: version,
  gateway: version,
  standby: undefined,
});

describe("berth update", () => {
  it("fetches the newest release, and restarts the services beside a standby", async () => {
    await using at = await scene({ version: "0.2.0" }, { version: "0.1.0" });
    await update(at.options());
    assert.deepEqual(await stateOf(at.dir), all("0.2.0"));
    assert.deepEqual(await machine(at.dir).calls(), [
      "reload",
      "start berth-gateway-standby",
      "restart berth-operator",
      "restart berth-gateway",
      "stop berth-gateway-standby",
    ]);
    assert.deepEqual(await at.record(), { version: "0.2.0", previous: ["0.1.0"] });
    assert.deepEqual(await at.files(), ["0.1.0", "0.2.0", "current", "installed.json"]);
    assert.deepEqual(at.said, ["Berth 0.2.0 is installed; `berth update --rollback` goes back to 0.1.0"]);
    await update(at.options());
    assert.equal(at.said.at(-1), "0.2.0 is the newest release on stable, of 2026-11-29");
  });

  it("says what there is with --check, and changes nothing", async () => {
    await using at = await scene({ version: "0.2.0", stateFormat: 2 }, { version: "0.1.0" });
    assert.deepEqual(await checkForUpdate(at.options()), {
      channel: "stable",
      installed: "0.1.0",
      newest: "0.2.0",
      released: "2026-11-29",
      is_newer: true,
      changes_state_format: true,
    });
    assert.deepEqual(await checkForUpdate(at.options({ channel: "nightly" })), {
      channel: "nightly",
      installed: "0.1.0",
      is_newer: false,
      changes_state_format: false,
    });
    assert.deepEqual(await at.files(), ["0.1.0", "current", "installed.json"]);
  });

  it("goes back, and forward again without fetching", async () => {
    await using at = await scene({ version: "0.2.0" });
    await update(at.options());
    await rollback(at.options());
    assert.deepEqual(await stateOf(at.dir), all("0.1.0"));
    assert.deepEqual(await at.record(), { version: "0.1.0", previous: [] });
    assert.equal((await rejectionOf(rollback(at.options()), CommandError)).message, "no release before 0.1.0 is here");
    const steps: string[] = [];
    await update(at.options({ onStep: (step: string) => steps.push(step) }));
    assert.ok(!steps.includes("download"));
    assert.deepEqual(await stateOf(at.dir), all("0.2.0"));
  });

  it("keeps three releases, and goes back through them", async () => {
    await using at = await scene({ version: "0.2.0" });
    for (const version of ["0.2.0", "0.3.0", "0.4.0", "0.5.0-beta.1"])
      await update(at.options({ from: await makeArchive(at.published, { version }) }));
    assert.deepEqual(await at.files(), ["0.3.0", "0.4.0", "0.5.0-beta.1", "current", "installed.json"]);
    assert.deepEqual(await at.record(), { version: "0.5.0-beta.1", previous: ["0.4.0", "0.3.0"] });
    await rollback(at.options());
    await rollback(at.options());
    assert.deepEqual(await stateOf(at.dir), all("0.3.0"));
    assert.deepEqual(await at.files(), ["0.3.0", "0.4.0", "0.5.0-beta.1", "current", "installed.json"]);
  });

  it("goes down where the state can be read, and says so", async () => {
    await using at = await scene({ version: "0.2.0" });
    const older = await makeArchive(at.published, { version: "0.0.9" });
    await update(at.options({ from: older }));
    assert.deepEqual(await stateOf(at.dir), all("0.0.9"));
    assert.match(at.said[0] ?? "", /^0\.0\.9 is older than 0\.1\.0, and can read its state: going down$/);
  });

  it("restarts only what runs", async () => {
    await using at = await scene({ version: "0.2.0" });
    const { services } = machine(at.dir);
    await services.stop("berth-gateway");
    await update(at.options());
    assert.deepEqual(await stateOf(at.dir), { ...all("0.2.0"), gateway: undefined });
  });

  it("says where no service runs that it would restart", async () => {
    await using at = await scene({ version: "0.2.0" });
    const { services } = machine(at.dir);
    for (const unit of ["berth-gateway", "berth-operator"] as const) await services.stop(unit);
    await update(at.options());
    assert.equal(at.said[0], "no service of this installation runs; what is started next is 0.2.0");
    await update(
      at.options({
        services: { ...services, kind: "none" },
        from: await makeArchive(at.published, { version: "0.3.0" }),
      }),
    );
    assert.equal(at.said[2], "no service manager runs here: restart Berth yourself, so that 0.3.0 runs");
  });

  it("keeps a unit that a person has edited, and says so", async () => {
    await using at = await scene({ version: "0.2.0" });
    const unit = join(layoutIn(at.dir).unitsDir, "berth-gateway.service");
    const edited = `${await readFile(unit, "utf8")}# mine\n`;
    await writeFile(unit, edited);
    await update(at.options());
    assert.equal(await readFile(unit, "utf8"), edited);
    assert.ok(at.said.includes(`${unit} was edited by a person and stays; ${unit}.new is the new text`));
    assert.deepEqual(await stateOf(at.dir), all("0.2.0"));
  });

  it("goes back by itself where the new release does not become ready", async () => {
    await using at = await scene({ version: "0.2.0", neverReady: "all" });
    const error = await rejectionOf(update(at.options()), CommandError);
    assert.equal(error.code, "update.rolled_back");
    assert.match(
      error.message,
      /^0\.2\.0 did not become ready, and 0\.1\.0 runs again: berth-gateway-standby was not ready/,
    );
    assert.deepEqual(await stateOf(at.dir), all("0.1.0"));
    assert.deepEqual(await at.record(), { version: "0.1.0", previous: [] });
    assert.ok(!(await machine(at.dir).calls()).includes("NOBODY LISTENS"));
  });

  it("goes back from a service that ends and is started again and again", async () => {
    for (const neverReady of ["berth-operator", "berth-gateway", "berth-gateway-standby"] as const) {
      await using at = await scene({ version: "0.2.0", neverReady });
      const error = await rejectionOf(update(at.options()), CommandError);
      assert.equal(error.code, "update.rolled_back", error.message);
      assert.match(error.message, new RegExp(`${neverReady} was not ready within`));
      assert.deepEqual(await stateOf(at.dir), all("0.1.0"), neverReady);
      assert.ok(!(await machine(at.dir).calls()).includes("NOBODY LISTENS"), neverReady);
      assert.deepEqual(await at.files(), ["0.1.0", "0.2.0", "current", "installed.json"]);
    }
  });

  it("takes slots that are unloaded, deleted, or take turns with others as they are", async () => {
    await using at = await scene({ version: "0.2.0" });
    const { health } = machine(at.dir);
    const names = ["one", "other", "deleted"];
    let looks = 0;
    const slots: typeof health.slots = async () => {
      if ((await health.operator()) !== "0.2.0") return new Map(names.map((name) => [name, "idle"]));
      const isTurn = looks++ % 2 === 0;
      return new Map([
        ["one", isTurn ? "ready" : "unloading"],
        ["other", isTurn ? "warming" : "serving"],
      ]);
    };
    // It takes a second look, for which a busy machine may need longer than other tests have their updates wait.
    await update(at.options({ health: { ...health, slots }, readyMs: 60_000 }));
    assert.equal(looks, 2);
    assert.deepEqual(await stateOf(at.dir), all("0.2.0"));
  });

  it("does not wait for slots on the way back, and leaves nothing that holds up the next update", async () => {
    await using at = await scene({ version: "0.2.0" });
    const { health } = machine(at.dir);
    const slots: typeof health.slots = async () =>
      (await at.files()).includes(".update.json") ? new Map([["primary", "error"]]) : await health.slots();
    const error = await rejectionOf(update(at.options({ health: { ...health, slots } })), CommandError);
    assert.equal(error.code, "update.rolled_back", error.message);
    assert.deepEqual(await at.files(), ["0.1.0", "0.2.0", "current", "installed.json"]);
    await update(at.options({ from: await makeArchive(at.published, { version: "0.3.0" }) }));
    assert.deepEqual(await stateOf(at.dir), all("0.3.0"));
  });

  it("begins anew after an update of which neither release became ready", async () => {
    await using at = await scene({ version: "0.2.0", neverReady: "berth-gateway" });
    const { services, health } = machine(at.dir);
    const restart: typeof services.restart = async (unit) => {
      if (unit === "berth-gateway" && (await stateOf(at.dir))["current"] === "0.1.0") throw new Error("no memory");
      await services.restart(unit);
    };
    const error = await rejectionOf(update(at.options({ services: { ...services, restart }, health })), CommandError);
    assert.equal(
      error.message,
      "0.2.0 did not become ready, and neither did 0.1.0, which is installed again: no memory",
    );
    assert.deepEqual(await at.files(), ["0.1.0", "0.2.0", "current", "installed.json"]);
    assert.equal((await stateOf(at.dir))["standby"], undefined);
    // As the service manager does by itself.
    await services.restart("berth-gateway");
    await update(at.options({ from: await makeArchive(at.published, { version: "0.3.0" }) }));
    assert.deepEqual(await stateOf(at.dir), all("0.3.0"));
  });

  it("has the units read that a killed update has written and noted", async () => {
    await using at = await scene({ version: "0.2.0" });
    await makeTree(join(layoutIn(at.dir).prefix, "0.2.0"), { version: "0.2.0" });
    const runs = { operator: true, gateway: true };
    await writeJournal(layoutIn(at.dir), { from: "0.1.0", to: "0.2.0", isGoingBack: false, runs, slots: [] });
    await update(at.options());
    assert.deepEqual((await machine(at.dir).calls()).slice(0, 2), ["reload", "start berth-gateway-standby"]);
    assert.deepEqual(await stateOf(at.dir), all("0.2.0"));
  });

  it("says that the earlier release could not be put back, and has the next update put it back", async () => {
    await using at = await scene({ version: "0.2.0", neverReady: "all" });
    const { health } = machine(at.dir);
    const stateFormat: typeof health.stateFormat = async () => {
      if ((await at.files()).includes(".update.json")) throw new Error("input/output error");
      return await health.stateFormat();
    };
    const error = await rejectionOf(update(at.options({ health: { ...health, stateFormat } })), CommandError);
    assert.equal(error.message, "0.2.0 did not become ready, and 0.1.0 could not be put back: input/output error");
    assert.equal((await stateOf(at.dir))["current"], "0.2.0");
    assert.equal((await rejectionOf(update(at.options()), CommandError)).code, "update.rolled_back");
    assert.deepEqual(await stateOf(at.dir), all("0.1.0"));
  });

  it("ends a standby and removes files that killed updates have left", async () => {
    await using at = await scene({ version: "0.1.0" });
    await machine(at.dir).services.start("berth-gateway-standby");
    const { prefix } = layoutIn(at.dir);
    for (const name of [".removed.0.0.9.x.tmp", ".update.unpacked.x"])
      await mkdir(join(prefix, name, "dist"), { recursive: true });
    for (const file of [".update.json", "installed.json"]) await writeFile(temporaryFor(join(prefix, file)), "{");
    await writeFile(join(prefix, ".update.tar.gz"), "");
    await symlink("0.0.9", join(prefix, ".current.x.tmp"));
    await update(at.options());
    assert.deepEqual(await stateOf(at.dir), all("0.1.0"));
    assert.deepEqual(await at.files(), ["0.1.0", "current", "installed.json"]);
  });

  it("goes back by itself where an operator, a gateway or a slot of the new release does not become ready", async () => {
    for (const part of ["operator", "gateway", "slots"] as const) {
      await using at = await scene({ version: "0.2.0" });
      const { health } = machine(at.dir);
      const isNew = async (): Promise<boolean> => (await health.operator()) === "0.2.0";
      const broken = {
        ...health,
        operator: async () => (part === "operator" && (await isNew()) ? undefined : await health.operator()),
        gateway: async (role: "gateway" | "standby") => {
          const report = await health.gateway(role);
          const isBroken = part === "gateway" && role === "gateway" && report?.version === "0.2.0";
          return isBroken ? undefined : report;
        },
        slots: async () =>
          part === "slots" && (await isNew()) ? new Map([["primary", "error" as const]]) : await health.slots(),
      };
      const error = await rejectionOf(update(at.options({ health: broken })), CommandError);
      assert.equal(error.code, "update.rolled_back", error.message);
      if (part === "slots") assert.match(error.message, /not so again within 0\.2 s: primary is in the state error$/);
      assert.match(error.next ?? "", /^journalctl --user -u berth-operator /);
      assert.deepEqual(await stateOf(at.dir), all("0.1.0"));
      assert.ok(!(await machine(at.dir).calls()).includes("NOBODY LISTENS"), part);
    }
  });

  it("stays where the earlier release cannot read the state that the new one has written", async () => {
    await using at = await scene({ version: "0.2.0", stateFormat: 2 });
    const { health } = machine(at.dir);
    const slots: typeof health.slots = async () => {
      if ((await health.operator()) !== "0.2.0") return await health.slots();
      await writeFile(join(at.dir, "state-format"), "2");
      return new Map([["primary", "starting"]]);
    };
    const error = await rejectionOf(update(at.options({ health: { ...health, slots } })), CommandError);
    assert.equal(error.code, "update.not_ready");
    assert.match(error.message, /0\.1\.0 cannot read the state that it has written \(format 2\): 0\.2\.0 stays/);
    assert.deepEqual(await stateOf(at.dir), all("0.2.0"));
    const back = await rejectionOf(rollback(at.options()), CommandError);
    assert.equal(back.message, "Berth 0.1.0 reads the state's format 1, and the state has format 2");
    assert.deepEqual(await stateOf(at.dir), all("0.2.0"));
  });
});
