import { createHash } from "node:crypto";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Dockerode from "dockerode";
import { imageUser } from "./berth.ts";
import { Stage } from "./stage.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const repository = "berth-embedded";

/**
 * Makes an image of the embedded engine from this clone's own files, unless the daemon has it: Node, its libraries, the
 * engine's sources and packages. Nothing is fetched. Resolves with the image's name.
 */
export async function embeddedImage(
  socketPath: string,
  say: (line: string) => void = () => undefined,
): Promise<string> {
  const tag = await version();
  const image = `${repository}:${tag}`;
  const api = new Dockerode({ socketPath });
  const filters = { reference: [image] };
  if ((await api.listImages({ filters })).length > 0) return image;
  say(`making the image ${image} of the embedded engine`);
  await using stage = await staged();
  const changes = [`ENTRYPOINT ${JSON.stringify(entrypoint)}`, "WORKDIR /app"];
  await stage.import(socketPath, { repo: repository, tag, changes });
  return image;
}

/** The same image as a tar file for a cluster's nodes; it runs as no user of theirs. Resolves with its name. */
export async function embeddedArchive(file: string): Promise<string> {
  const name = `localhost/${repository}:${await version()}`;
  await using stage = await staged();
  await stage.archive(file, { name, entrypoint, workingDir: "/app", user: imageUser });
  return name;
}

const entrypoint = ["/usr/bin/node", "--disable-warning=ExperimentalWarning", "/app/src/main.ts"] as const;

async function staged(): Promise<Stage> {
  const stage = Stage.open();
  await stage.addProgram(process.execPath, "/usr/bin/node");
  for (const part of ["package.json", "src", "node_modules"])
    await stage.add(join(root, "engines", part), `/app/${part}`);
  for (const library of await nativeLibraries()) await stage.addLibrariesOf(library);
  return stage;
}

/** Differs whenever the engine's sources or packages do. */
async function version(): Promise<string> {
  const hash = createHash("sha256");
  for (const file of [
    "package-lock.json",
    ...(await readdir(join(root, "engines/src"))).map((name) => `src/${name}`),
  ]) {
    hash.update(await readFile(join(root, "engines", file)));
  }
  return hash.digest("hex").slice(0, 12);
}

/** Libraries that the prebuilt llama.cpp needs beyond those of Node. */
async function nativeLibraries(): Promise<readonly string[]> {
  const packages = join(root, "engines/node_modules/@node-llama-cpp");
  const names = await readdir(packages, { recursive: true });
  return names.filter((name) => /\.(node|so)$/.test(name)).map((name) => join(packages, name));
}
