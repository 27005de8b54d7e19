import { isRecord } from "../../src/lib/record.ts";
import { wanted, type LockedPackage } from "./packages.ts";
import { manifestOf } from "./program.ts";
import { llamaRelease, type Shipped } from "./shipped.ts";

/**
 * A bill of materials in the JSON form of CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/. It has no serial number and
 * no time, so that the same release gives the same text.
 */
export async function billOfMaterials(shipped: Shipped): Promise<unknown> {
  const { version, target, program, pages, enginePackages, node, library } = shipped;
  const llama = await llamaRelease();
  const nodeRef = `pkg:github/nodejs/node@v${node.version}`;
  const llamaRef = `pkg:github/${llama.repository}@${llama.tag}`;
  const berth = `pkg:generic/berth@${version}?arch=${target}`;
  const engineRef = "berth-embedded-engine";
  const byRef = new Map([...program, ...pages, ...enginePackages].map((each) => [purlOf(each), each]));
  const components = [
    {
      type: "platform",
      "bom-ref": nodeRef,
      name: "node",
      version: node.version,
      licenses: licenceChoice("MIT"),
      cpe: `cpe:2.3:a:nodejs:node.js:${node.version}:*:*:*:*:*:*:*`,
      purl: nodeRef,
    },
    {
      type: "library",
      "bom-ref": llamaRef,
      name: "llama.cpp",
      version: llama.tag,
      licenses: licenceChoice("MIT"),
      purl: llamaRef,
    },
    {
      type: "application",
      "bom-ref": engineRef,
      name: "berth-embedded-engine",
      version,
      licenses: licenceChoice("Apache-2.0"),
    },
    ...[...byRef].map(([ref, { name, version: own, license, integrity }]) => ({
      type: "library",
      "bom-ref": ref,
      ...scoped(name),
      version: own,
      hashes: [{ alg: "SHA-512", content: Buffer.from(integrity.slice("sha512-".length), "base64").toString("hex") }],
      licenses: licenceChoice(license),
      purl: ref,
    })),
  ].toSorted((left, right) => (left["bom-ref"] < right["bom-ref"] ? -1 : 1));
  const direct = [
    ...(await namedIn("package.json")).map((name) => wanted(shipped.own, name)),
    ...pages.filter((each) => !pages.some((other) => dependenciesOf(other, shipped.own).includes(each))),
  ];
  const ofEngine = (await namedIn("engines/package.json")).map((name) => wanted(shipped.engine, name));
  const dependsOn: readonly (readonly [string, readonly string[]])[] = [
    [berth, [nodeRef, engineRef, ...direct.map(purlOf)]],
    [engineRef, [nodeRef, purlOf(library), ...ofEngine.map(purlOf)]],
    [purlOf(library), [llamaRef]],
    [nodeRef, []],
    [llamaRef, []],
    ...[...program, ...pages].map((each) => edges(each, shipped.own, byRef)),
    ...enginePackages.map((each) => edges(each, shipped.engine, byRef)),
  ];
  const merged = new Map<string, Set<string>>();
  for (const [ref, refs] of dependsOn) merged.set(ref, new Set([...(merged.get(ref) ?? []), ...refs]));
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      component: {
        type: "application",
        "bom-ref": berth,
        name: "berth",
        version,
        licenses: licenceChoice("Apache-2.0"),
        purl: berth,
      },
    },
    components,
    dependencies: [...merged]
      .map(([ref, refs]) => ({ ref, dependsOn: [...refs].toSorted() }))
      .toSorted((left, right) => (left.ref < right.ref ? -1 : 1)),
  };
}

/** The dependencies of a package.json of the clone. */
async function namedIn(file: string): Promise<readonly string[]> {
  const { dependencies } = await manifestOf(file);
  return isRecord(dependencies) ? Object.keys(dependencies) : [];
}

const edges = (
  each: LockedPackage,
  locked: ReadonlyMap<string, LockedPackage>,
  shipped: ReadonlyMap<string, LockedPackage>,
): [string, readonly string[]] => [
  purlOf(each),
  dependenciesOf(each, locked)
    .map(purlOf)
    .filter((ref) => shipped.has(ref)),
];

/** Finds the dependencies of a package as Node does: beside the package first, then in each directory above. */
function dependenciesOf(each: LockedPackage, locked: ReadonlyMap<string, LockedPackage>): readonly LockedPackage[] {
  return each.dependencies.flatMap((name) => {
    for (let place = each.path; ; place = place.slice(0, Math.max(0, place.lastIndexOf("/node_modules/")))) {
      const found = locked.get(`${place === "" ? "" : `${place}/`}node_modules/${name}`);
      if (found !== undefined) return [found];
      if (place === "") return [];
    }
  });
}

/** https://github.com/package-url/purl-spec: the scope's sign is encoded. */
function purlOf({ name, version }: LockedPackage): string {
  return `pkg:npm/${name.replace("@", "%40")}@${version}`;
}

function scoped(name: string): { group?: string; name: string } {
  const [group, rest] = name.split("/");
  return rest === undefined || group === undefined ? { name } : { group, name: rest };
}

/** One id of SPDX, or an expression of several. */
function licenceChoice(license: string): readonly unknown[] {
  return /^[\w.+-]+$/.test(license) ? [{ license: { id: license } }] : [{ expression: license }];
}
