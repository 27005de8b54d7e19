import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { chmod, chown, lchown, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { openManifestWriter } from "../../../src/store/files/manifest-writer.ts";
import { validateDirectory } from "../../../src/store/files/validate.ts";
import { removalRecorder } from "../../../src/store/state/removals.ts";
import { noOtherUser, otherUser } from "../../support/other-user.ts";
import { until } from "../../support/until.ts";
import { directoryWith, noSweep, seeded, site, toml } from "./site.ts";

const skip = noOtherUser() ?? false;

const open666 = (file: string): string =>
  `Unreadable: is not read: ${file} may be written by everybody (mode 666); check what it holds, then chmod go-w ${file}`;

describe("a manifest that another user may write", { concurrency: true }, () => {
  it("is not read when it changes: the last valid spec of each kind stays, and says why", async () => {
    const files = {
      "slots/s.toml": toml("mine"),
      "models/m.toml": 'source = "file:///models/mine.gguf"\n',
      "upstreams/u.toml": 'base_url = "https://mine.example.com/v1"\n[discover]\nprefix = "x/"\n',
      "groups/g.toml": "max_wait_seconds = 5\n",
    };
    await using env = await site(files, noSweep);
    const specs = (): unknown[] => [
      env.source.get("Slot", "s")?.spec,
      env.source.get("Model", "m")?.spec,
      env.source.get("Upstream", "u")?.spec,
      env.source.get("SlotGroup", "g")?.spec,
    ];
    const mine = structuredClone(specs());
    assert.ok(!mine.includes(undefined));
    const kinds = [
      ["Slot", "s", "slots/s.toml", toml("theirs")],
      ["Model", "m", "models/m.toml", 'source = "file:///models/theirs.gguf"\n'],
      ["Upstream", "u", "upstreams/u.toml", 'base_url = "https://theirs.example.com/v1"\n[discover]\nprefix = "x/"\n'],
      ["SlotGroup", "g", "groups/g.toml", "max_wait_seconds = 7\n"],
    ] as const;
    for (const [kind, name, file, theirs] of kinds) {
      await chmod(env.at(file), 0o666);
      await until("the mode alone is seen by its event", () => env.refusal(kind, name) !== undefined);
      await writeFile(env.at(file), theirs);
      await env.source.resync();
      assert.equal(env.refusal(kind, name), open666(`DIR/${file}`));
    }
    assert.deepEqual(specs(), mine);
    for (const [kind, name, file] of kinds) {
      await chmod(env.at(file), 0o644);
      await env.source.resync();
      assert.equal(env.refusal(kind, name), undefined);
    }
    assert.equal(env.model("s"), "theirs", "a person has looked at it, and closed it");
  });

  it("is only refused at a start: its slot keeps the published spec, and the others run", async () => {
    const prepare = async (dir: string): Promise<void> => {
      for (const file of ["slots/s.toml", "groups/g.toml"]) await chmod(join(dir, file), 0o666);
    };
    const files = { "slots/s.toml": toml("theirs"), "slots/t.toml": toml("mine"), "groups/g.toml": "" };
    await using env = await site(files, { seed: [seeded("s")], prepare });
    assert.deepEqual([env.model("s"), env.refusal("Slot", "s")], ["seeded", open666("DIR/slots/s.toml")]);
    assert.deepEqual([env.model("t"), env.refusal("Slot", "t")], ["mine", undefined]);
    assert.equal(env.source.get("SlotGroup", "g")?.spec, undefined, "nothing was in force");
    assert.equal(env.refusal("SlotGroup", "g"), open666("DIR/groups/g.toml"));
  });

  it("is one of another user's, or a link of theirs", { skip }, async () => {
    await using env = await site({ "slots/s.toml": toml("mine"), "other.toml": toml("linked") });
    await chown(env.at("slots/s.toml"), otherUser, otherUser);
    await writeFile(env.at("slots/s.toml"), toml("theirs"));
    for (const name of ["a", "b"]) await symlink(env.at("other.toml"), env.at(`slots/${name}.toml`));
    await lchown(env.at("slots/b.toml"), otherUser, otherUser);
    await env.source.resync();
    assert.deepEqual(["s", "a", "b"].map(env.model), ["mine", "linked", undefined]);
    assert.match(
      env.refusal("Slot", "s") ?? "",
      /^Unreadable: is not read: DIR\/slots\/s\.toml belongs to \S+ \(uid 65534\), who may change its contents; check what it holds, then make it yours: chown -h root DIR\/slots\/s\.toml$/,
    );
    assert.match(env.refusal("Slot", "b") ?? "", /DIR\/slots\/b\.toml is a link of \S+ \(uid 65534\)/);
  });

  it("is not one that only a private group may write", { skip }, async () => {
    await using env = await site({ "slots/s.toml": toml("one") });
    await chmod(env.at("slots/s.toml"), 0o664);
    await writeFile(env.at("slots/s.toml"), toml("two"));
    await env.source.resync();
    assert.deepEqual([env.model("s"), env.refusal("Slot", "s")], ["two", undefined], "root's own group");
    await chown(env.at("slots/s.toml"), 0, otherUser);
    await writeFile(env.at("slots/s.toml"), toml("three"));
    await env.source.resync();
    assert.equal(env.model("s"), "two");
    assert.match(env.refusal("Slot", "s") ?? "", /may be written by its group \(mode 664\)/);
  });

  it("is every manifest of a directory where another user may make files; none there counts as deleted", async () => {
    const files = { "slots/a.toml": toml("mine"), "slots/b.toml": toml("mine"), "upstreams/u.toml": "" };
    await using env = await site(files, { isStopped: true });
    await chmod(env.at("slots"), 0o777);
    await writeFile(env.at("slots/.new"), toml("theirs"));
    await rename(env.at("slots/.new"), env.at("slots/a.toml"));
    await rm(env.at("slots/b.toml"));
    for (const ms of [0, 10_000]) await env.pass(ms);
    assert.deepEqual(["a", "b"].map(env.model), ["mine", "mine"]);
    const why = "DIR/slots may be written by everybody (mode 777)";
    assert.equal(
      env.refusal("Slot", "a"),
      `Unreadable: is not read: ${why}; check what it holds, then chmod go-w DIR/slots`,
    );
    const problems = env.source.problems().map(({ reason, message }) => [reason, message.replaceAll(env.dir, "DIR")]);
    const said = `${why}: no manifest there is read, and the earlier declarations stay in force; chmod go-w DIR/slots`;
    assert.deepEqual(problems, [["SourceUnsafe", said]]);
    await chmod(env.at("slots"), 0o755);
    for (const ms of [0, 10_000]) await env.pass(ms);
    assert.deepEqual(["a", "b"].map(env.model), ["theirs", undefined]);
    assert.deepEqual(env.source.problems(), []);
  });

  it("is a problem of the directory in use and none of one elsewhere, and is not edited over the API", async () => {
    await using directory = await directoryWith({ "slots/s.toml": toml("m") });
    const file = join(directory.path, "slots/s.toml");
    await chmod(file, 0o666);
    const message = open666(file).replace(/^Unreadable: /, "");
    assert.deepEqual(await validateDirectory(directory.path), [{ reason: "Unreadable", file, message }]);
    assert.deepEqual(await validateDirectory(directory.path, { isElsewhere: true }), []);
    // An edit would make it trusted.
    const removals = removalRecorder(join(directory.path, "state"));
    const writer = openManifestWriter({ configDir: directory.path, isReadOnly: false, removals });
    const refusal = { code: "config.read_only", message: `slots/s.toml ${message}` };
    await assert.rejects(writer.set("Slot", "s", ["model", "default"], "other"), refusal);
    assert.equal(statSync(file).size, toml("m").length);
  });
});
