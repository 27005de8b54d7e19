import type { Page } from "playwright-core";

/** Chooses an action of the menu that the conversation with that title has in the list. */
export async function fromMenu(
  page: Page,
  title: string,
  action: "Rename" | "Pin" | "Unpin" | "Export" | "Delete",
): Promise<void> {
  await page.getByRole("button", { name: `More for ${title}`, exact: true }).click();
  await page.getByRole("menuitem", { name: action, exact: true }).click();
}

/** Opens the parameters, has `act` see their dialog, and closes them. */
export async function withParameters(page: Page, act: () => Promise<void>): Promise<void> {
  await page.getByRole("button", { name: "Parameters" }).click();
  const dialog = page.getByRole("dialog", { name: "Parameters" });
  await dialog.waitFor();
  await act();
  await dialog.getByRole("button", { name: "Close" }).click();
  await dialog.waitFor({ state: "detached" });
}
