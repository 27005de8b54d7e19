/** An image's reference without its tag or digest. A colon before the last slash belongs to the registry's port. */
export function repositoryOf(image: string): string {
  const [name = ""] = image.split("@");
  const colon = name.lastIndexOf(":");
  return colon > name.lastIndexOf("/") ? name.slice(0, colon) : name;
}

const host = String.raw`(?:(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?\/)?`;
const part = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
const tag = "(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?";
const digest = "(?:@[a-z0-9]+:[0-9a-f]{32,})?";

/**
 * The grammar of image names (https://pkg.go.dev/github.com/distribution/reference). No other text may become part of
 * the address of a request to a container engine.
 */
export const imageReference = new RegExp(`^${host}${part}(?:\\/${part})*${tag}${digest}$`);
