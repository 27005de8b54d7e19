import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { berthProcess } from "../support/command.ts";
import { until } from "../support/until.ts";
import { isReady } from "./coder.ts";

const pipes = ["operator.lock", "operator.json", "registry.json", "demand/g.json", "auth/tokens/abcd1234.json"];
const directories = ["slots/a.json", "requests/a.restart.json"];
/** Reported by nobody: whoever reads the file judges a link. */
const links = ["instance", "processes/a.main.json"];

it("unexpected entries in the place of state files delay no command, and are moved aside at a start", async () => {
  await using berth = await startBerth({
    // The parts are started once the commands have ended.
    args: ["--version"],
  });
  const { stateDir } = berth;
  for (const directory of ["demand", "slots", "requests", "processes"])
    await mkdir(join(stateDir, directory), { recursive: true });
  await mkdir(join(stateDir, "auth/tokens"), { recursive: true, mode: 0o700 });
  for (const place of pipes) execFileSync("mkfifo", [join(stateDir, place)]);
  for (const place of directories) await mkdir(join(stateDir, place, "x"), { recursive: true });
  for (const place of links) await symlink("nowhere", join(stateDir, place));
  await writeFile(join(stateDir, "engines.lock.yaml"), "\0}{ nonsense");
  assert.deepEqual(await berthProcess(["token", "list"], berth.env), {
    code: 0,
    stdout: "ID  LABEL  SCOPE  CREATED  LAST USED\n",
    stderr: "",
  });
  const doctor = await berthProcess(["doctor"], { ...berth.env, SVC_PORT: "0", SVC_OPERATOR_PORT: "0" });
  assert.match(doctor.stdout, /^warn {2}operator: whether one runs cannot be seen \(it is no plain file\)/m);

  await using up = await startBerth({ env: berth.env });
  await until("the operator is ready", () => isReady(berth));
  const kinds = [
    ...pipes.map((place) => [place, "a named pipe, not a file"]),
    ...directories.map((place) => [place, "a directory, not a file"]),
  ];
  for (const [place, kind] of kinds)
    await until(`${place} is reported`, () => up.log().includes(`/state/${place} is ${kind}: it was moved to`));
  await until("invalid pins of images are reported", () =>
    /engines\.lock\.yaml: .*: it was moved to \S+\/aside; the next pull of each image pins it again/.test(up.log()),
  );
  const aside = await readdir(join(stateDir, "aside"));
  // A record that is a link is no record; a name that leads nowhere is made again.
  const all = [
    "processes.a.main.json",
    ...kinds.map(([place = ""]) => place.replaceAll("/", ".")),
    "engines.lock.yaml",
  ];
  assert.deepEqual(aside.map((name) => name.replace(/^\d+-/, "")).toSorted(), all.toSorted());
});
