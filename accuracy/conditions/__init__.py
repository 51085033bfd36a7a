"""Parts of the areas: conditions under which an algorithm is measured."""
