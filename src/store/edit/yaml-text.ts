import { stringify } from "yaml";

/** Also quoted where only YAML 1.1 would read another value: other tools read these files too. */
const style = { lineWidth: 0, compat: "yaml-1.1", flowCollectionPadding: false } as const;

/** A spec as a new YAML file. */
export function yamlText(spec: Readonly<Record<string, unknown>>): string {
  return stringify(spec, style);
}
