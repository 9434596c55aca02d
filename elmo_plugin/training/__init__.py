"""What training needs beyond AllenNLP's own trainer."""
