import type { JSX } from "preact";
import { Menu } from "../../shared/menu.tsx";
import { focusMessage } from "../focus.ts";
import { canChat, models } from "../models.ts";

interface ModelMenuProps {
  readonly label: string;
  readonly except: string;
  readonly onChoose: (model: string) => void;
}

/** The models that may answer instead; absent where there is no other one. */
export function ModelMenu({ label, except, onChoose }: ModelMenuProps): JSX.Element | null {
  const others = models.value.filter((each) => canChat(each) && each.id !== except);
  if (others.length === 0) return null;
  const items = others.map(({ id }) => ({
    name: id,
    act: () => {
      onChoose(id);
      focusMessage();
    },
  }));
  return <Menu label={label} word={label} items={items} />;
}
