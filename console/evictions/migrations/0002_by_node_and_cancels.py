from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evictions', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='eviction',
            name='by_node',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='eviction',
            name='cancels',
            field=models.BooleanField(default=False),
        ),
    ]
