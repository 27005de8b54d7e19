import assert from "node:assert/strict";
import { chmod, chown, readdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { Fault } from "../../doubles/llama-places.ts";
import { plainContainer as container } from "../../support/container.ts";
import { Desk, keeping } from "./desk.ts";

const needsRoot = process.getuid?.() === 0 ? false : "needs root";
const without = "it starts without a place for its context: ";
const withoutPlace = ["/bin/sh", "--port", "8081", "--model", "/tiny"];
const flag = "--slot-save-path";

/** Saves 500 tokens in a file of another user. */
const asOther: Fault = async (response, file) => {
  await writeFile(file, "500".padEnd(5040), { mode: 0o600 });
  await chown(file, 54_321, 54_321);
  response.writeHead(200).end('{"n_saved":500,"n_written":5040}');
};

describe("the context of an engine in a container", () => {
  it("is saved by any user and read again, in a directory that is open to its mount alone", async () => {
    await using desk = await Desk.open();
    await desk.save([500], { container });
    const modes = await desk.modes("contexts", "contexts/primary", "contexts/primary/main");
    assert.deepEqual(modes, ["700", "700", "777"]);
    assert.equal((await desk.restore({ container })).tokens[0], 500);
  });

  it("is saved in a file of a user that this process is not", { skip: needsRoot }, async () => {
    await using desk = await Desk.open();
    await desk.save([500], { container, fault: asOther });
    assert.equal(desk.latest?.result, "saved", JSON.stringify(desk.latest));
    await desk.save([500], { ordinal: 1, spec: keeping({}, { replicas: 2 }), fault: asOther });
    assert.equal(desk.latest?.result, "dropped", "a program's user is known");
  });

  it("is not taken from a link, which may lead anywhere", async () => {
    await using desk = await Desk.open();
    const outside = join(desk.stateDir, "outside");
    await writeFile(outside, "500".padEnd(5040));
    const fault: Fault = async (response, file) => {
      await symlink(outside, file);
      response.writeHead(200).end('{"n_saved":500,"n_written":5040}');
    };
    await desk.save([500], { container, fault });
    assert.deepEqual([desk.latest?.result, await desk.files()], ["dropped", []]);
  });

  it("is not given to the content of another image of the same name", async () => {
    await using desk = await Desk.open();
    desk.image = "sha256:one";
    await desk.save([500], { container });
    desk.image = "sha256:two";
    assert.deepEqual([(await desk.restore({ container })).calls, await desk.files()], [[], []]);
  });

  it(
    "is closed to others again before a program of another user may pass to its own",
    { skip: needsRoot },
    async () => {
      await using desk = await Desk.open();
      const users = async (...paths: readonly string[]) =>
        await Promise.all(paths.map(async (path) => (await stat(join(desk.stateDir, path))).uid));
      const paths = ["contexts/primary", "contexts/primary/main", "contexts/primary/main-1"];
      await desk.start([500], { container });
      await desk.start([500], { container, ordinal: 1 });
      desk.owner = { uid: 54_321, gid: 54_321 };
      await chmod(desk.stateDir, 0o711);
      await desk.start([500]);
      assert.deepEqual(
        [await desk.modes(...paths), await users(...paths)],
        [
          ["711", "700", "700"],
          [0, 54_321, 0],
        ],
      );
      await desk.start([500], { container });
      const main = "contexts/primary/main";
      assert.deepEqual([await desk.modes(main), await users(main)], [["777"], [0]]);
    },
  );

  it("is left out with its flag where the container engine refuses the mount, and nothing stays of it", async () => {
    await using desk = await Desk.open();
    const { started } = await desk.start([500], { container });
    const given = await desk.contexts.refused(started, new Error("its container cannot have it: no such directory"));
    assert.deepEqual([given.command, given.contextPlace], [withoutPlace, undefined]);
    assert.deepEqual(await readdir(join(desk.stateDir, "contexts/primary")), []);
    assert.equal(desk.latest?.message, `${without}its container cannot have it: no such directory`);
  });
});

describe("an engine that refuses its place for contexts", () => {
  const refusal = `error while handling argument "${flag}": not a directory: /berth/context`;

  it("ends, and the next one of the same kind starts without; one of another kind, or of the next operator, gets a place", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500]);
    desk.said = `build: 1\n${refusal}\n\nusage:\n${flag} PATH`;
    await desk.contexts.ended(first.process, keeping());
    const second = await desk.start([500]);
    assert.deepEqual(second.started.command, withoutPlace);
    assert.equal(desk.latest?.message, `${without}the engine before ended for it: ${refusal}`);
    await desk.contexts.save(second.process, keeping(), 10_000);
    assert.deepEqual(second.engine.calls, [], "it has no place to save to");
    assert.ok((await desk.start([500], { ref: "big" })).started.command.includes(flag));
    desk.successor();
    assert.ok((await desk.start([500])).started.command.includes(flag));
  });

  it("is not each engine that ends: one that crashed keeps its place", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500]);
    desk.said = `srv: saving to ${flag}\nSegmentation fault`;
    await desk.contexts.ended(first.process, keeping());
    assert.ok((await desk.start([500])).started.command.includes(flag));
  });
});
