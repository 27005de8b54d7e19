import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { it } from "node:test";
import { EngineLockFile } from "../../../src/store/state/engine-images.ts";
import { clearOddFiles } from "../../../src/store/state/odd-files.ts";
import { tempDir } from "../../support/temp-dir.ts";

const oddities = {
  "a named pipe": async (path) => void execFileSync("mkfifo", [path]),
  "a directory": async (path) => await mkdir(path),
} satisfies Record<string, (path: string) => Promise<void>>;

const places = [
  "operator.lock",
  "operator.json",
  "registry.json",
  "instance",
  "engines.lock.yaml",
  "slots/a.json",
  "processes/a.main.json",
  "demand/g.json",
  "requests/a.restart.json",
  "requests/removals/slot.a.json",
  "hardware/found.json",
  "auth/mode.json",
  "auth/tokens/abcd1234.json",
  "logs/a.main.log",
];

/** Clears the directory, and returns the reports and what is aside by now. */
async function cleared(path: string): Promise<{ readonly told: readonly string[]; readonly aside: readonly string[] }> {
  const told: string[] = [];
  await clearOddFiles(path, (line) => told.push(line.replaceAll(path, "DIR")));
  const aside = await readdir(join(path, "aside")).catch(() => []);
  return { told: told.toSorted(), aside: aside.map((name) => name.replace(/^\d+-/, "")).toSorted() };
}

for (const [kind, make] of Object.entries(oddities))
  it(`${kind} in the place of a state file is moved aside and reported`, async () => {
    await using directory = await tempDir();
    for (const place of places) {
      await mkdir(dirname(join(directory.path, place)), { recursive: true });
      await make(join(directory.path, place));
    }
    assert.deepEqual(await cleared(directory.path), {
      told: places.map((place) => `DIR/${place} is ${kind}, not a file: it was moved to DIR/aside`).toSorted(),
      aside: places.map((place) => place.replaceAll("/", ".")).toSorted(),
    });
  });

it("a socket is moved aside too, and a pipe that has no name of a state file stays where it is", async () => {
  await using directory = await tempDir();
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(join(directory.path, "run.json"), resolve));
  execFileSync("mkfifo", [join(directory.path, "mine")]);
  const told = ["DIR/run.json is a socket, not a file: it was moved to DIR/aside"];
  assert.deepEqual(await cleared(directory.path), { told, aside: ["run.json"] });
  assert.ok(existsSync(join(directory.path, "mine")));
  await new Promise((resolve) => server.close(resolve));
});

it("files, and pins of images that are a link to a file, stay", async () => {
  await using directory = await tempDir();
  await writeFile(join(directory.path, "registry.json"), "{}");
  await writeFile(join(directory.path, "pins.yaml"), "images: {}\n");
  await symlink("pins.yaml", join(directory.path, "engines.lock.yaml"));
  assert.deepEqual(await cleared(directory.path), { told: [], aside: [] });
});

it("invalid pins of images are moved aside for an operator, whose next pull pins each image again", async () => {
  await using directory = await tempDir();
  await writeFile(join(directory.path, "engines.lock.yaml"), "\0}{ nonsense");
  const told: string[] = [];
  const { lock } = await EngineLockFile.openAnyway(directory.path, (line) => told.push(line));
  assert.deepEqual(lock, {});
  assert.match(told.join("\n"), /engines\.lock\.yaml: .*: it was moved to \S+\/aside; the next pull of each image/);
});
