/** An image's reference without its tag or digest. A colon before the last slash belongs to the registry's port. */
export function repositoryOf(image: string): string {
  const [name = ""] = image.split("@");
  const colon = name.lastIndexOf(":");
  return colon > name.lastIndexOf("/") ? name.slice(0, colon) : name;
}
